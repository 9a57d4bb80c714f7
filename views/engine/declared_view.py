"""Whether a view is declared: until its declaration is done readers wait, and once it was dropped or replaced they are refused."""

from __future__ import annotations

from .view_keeper import ViewKeeper


class Declared:
    """A view that may be found by its name before its declaration is done, as by other threads."""

    _keeper: ViewKeeper
    _gone = ""
    """The reason why it cannot be used any more; empty while it can."""
    _is_being_declared = False

    @property
    def _reason_gone(self) -> str:
        if self._is_being_declared:  # Another view of its name, or none, is published.
            with self._keeper.turn:  # The thread that declares it has it until that is done.
                pass
        return self._gone

    def _declared(self, refusal: str = "") -> None:
        """End the declaration, with the reason why it has failed, if it has."""
        self._gone, self._is_being_declared = refusal, False
