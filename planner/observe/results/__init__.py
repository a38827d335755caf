"""Result files of other benchmark tools: read, made into requests, compared with the prediction, kept."""
