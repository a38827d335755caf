"""`replay`: a recorded trace through the simulator."""
