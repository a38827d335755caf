"""State between starts: the user's settings, the saved screen, and the files of the state folder."""
