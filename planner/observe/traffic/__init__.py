"""Traffic of a service as others recorded it: traces, access logs, spans, and pages of metrics."""
