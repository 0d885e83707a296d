"""Spans: recorded while events pass, sent by others over OTLP, read from every common convention, queried."""
