"""How results show themselves in a notebook: one line, a table, a frame, a chart."""

from prsrank.notebook.charts import Chart, Columns
from prsrank.notebook.shown import Shown, frame_of

__all__ = ["Chart", "Columns", "Shown", "frame_of"]
