"""What is true in a session that is far away: a snapshot, kept up to date by what comes after it."""

from harnessd.facts.draft import Drafts
from harnessd.facts.event import Delta, Event
from harnessd.facts.fold import fold
from harnessd.facts.state import State
from harnessd.facts.view import View, view


class Mirror:
    """`state` equals the server's after the same event; `drafts` is the text so far of what is being written."""

    def __init__(self, state: State | None = None) -> None:
        self.state = state or State()
        self.drafts = Drafts()

    @property
    def view(self) -> View:
        """What a screen shows."""
        return view(self.state)

    def take(self, item: Event | Delta) -> None:
        """Takes in the next item of a stream; an event that is known already changes nothing."""
        if not isinstance(item, Event):
            self.drafts.take(item)
        elif item.seq > self.state.seq:
            self.state = fold(self.state, item)
            self.drafts.settle(item)
