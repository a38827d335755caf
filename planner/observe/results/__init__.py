"""Result files of other benchmark tools: read, converted to requests, compared with the prediction, stored."""
