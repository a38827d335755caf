"""What an observed window of telemetry says of a GPU: verdict, actions, and what they save."""
