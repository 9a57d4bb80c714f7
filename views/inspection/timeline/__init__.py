"""What happened in a run, drawn in the two domains of time: rows, watermarks and panes as SVG."""

from .drawing import Look
from .gathering import Choice, SourceRows
from .recording import Recording
from .timeline import Timeline, timeline_of

__all__ = ["Choice", "Look", "Recording", "SourceRows", "Timeline", "timeline_of"]
