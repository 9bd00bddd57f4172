"""What only Spark needs: where a step runs, never what it computes."""

from prsrank.spark.engine import SparkEngine

__all__ = ["SparkEngine"]
