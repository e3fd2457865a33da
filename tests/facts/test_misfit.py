"""Are the words of the validator turned into ours?"""

from typing import Literal

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from harnessd.facts.misfit import misfit


class Shelf(BaseModel):
    model_config = ConfigDict(extra="forbid")
    books: tuple[str, ...] = ()
    by_name: dict[str, int] = {}
    wood: Literal["oak", "ash"]
    height: int = 1

    @field_validator("height")
    @classmethod
    def _fits(cls, height: int) -> int:
        if height > 9:
            raise ValueError("No shelf is that high")
        return height


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"books": "a", "wood": "oak"}, "must be a list"),
        ({"by_name": [], "wood": "oak"}, "must be an object"),
        ({"wood": "tin"}, "must be 'oak' or 'ash'"),
        ({}, "is missing"),
        ({"wood": "oak", "hight": 2}, "is not known here"),
        ({"wood": "oak", "height": 12}, "no shelf is that high"),
        ({"wood": "oak", "height": "x"}, "must be a valid integer, unable to parse string as an integer"),
    ],
)
def test_no_jargon_of_the_validator_is_left(given: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Shelf.model_validate(given)
    assert misfit(caught.value.errors()[0]["msg"]) == said
