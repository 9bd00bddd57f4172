"""A model after its launch: windows of new sessions beside the log that it was trained on."""

from prsrank.monitor.monitoring import Monitoring, monitor_log

__all__ = ["Monitoring", "monitor_log"]
