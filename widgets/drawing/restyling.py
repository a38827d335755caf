"""Styles of widgets, in five ways quicker than Textual's own; checked against 8.2.8.

- Textual goes through all rules of all style sheets for each widget, and again for each of its parts that have styles of their own. Here
  the rules for the same types, classes and id are picked once.
- Textual looks for the ancestors that a rule names before it looks at the widget. Here the widget comes first, and is enough for most rules.
- Textual styles every widget anew when the screen gets the class of another size. Here those are that rules with this class are for.
- Textual styles a widget in its making as soon as it gets a class, and once more as it comes on a screen. Here that is the first time.
- Textual styles what the cursor leaves as the program ends. Here nothing is styled any more once it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import textual.app
from textual.css.match import _check_selectors
from textual.css.model import RuleSet, SelectorType
from textual.css.stylesheet import Stylesheet
from textual.css.types import Specificity3
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widget import Widget


class LeanStylesheet(Stylesheet):
    """A style sheet that picks the rules for the same names once."""

    def __init__(self, *, variables: dict[str, str] | None = None) -> None:
        super().__init__(variables=variables)
        self._picked: dict[frozenset[str], list[RuleSet]] = {}
        """Types, classes and id that rules are for -> these rules, in their order."""
        self._picked_from: dict[str, list[RuleSet]] = {}
        """The map of rules that they were picked from."""
        self._at_hand: list[RuleSet] | None = None
        """Rules for the node that is being styled; None: no node is."""

    @property
    def rules(self) -> list[RuleSet]:
        """All rules; of a node that is being styled, those that name it."""
        return super().rules if self._at_hand is None else self._at_hand

    def apply(self, node: DOMNode, *, animate: bool = False, cache: Any = None) -> None:
        """Style `node`, and its parts with styles of their own."""
        self._at_hand = None
        self._at_hand = self._picked_for(node._selector_names)
        try:
            super().apply(node, animate=animate, cache=cache)
        finally:
            self._at_hand = None

    def update_by(self, classes: AbstractSet[str], nodes: Iterable[DOMNode], *, animate: bool) -> None:
        """Style those of `nodes` anew that have rules, for them or their parts, in which one of `classes` is named."""
        concerned = []
        for node in nodes:
            parts = (f".{part}" for part in node._get_component_classes())
            if any(not classes.isdisjoint(_classes_in(rule)) for rule in self._picked_for(node._selector_names.union(parts))):
                concerned.append(node)
            else:
                node.notify_style_update()  # it may stand on what has another colour now
        self.update_nodes(concerned, animate=animate)

    def _picked_for(self, names: AbstractSet[str]) -> list[RuleSet]:
        every, by_name = self.rules, self.rules_map
        if by_name is not self._picked_from:
            self._picked, self._picked_from = {}, by_name
        known = frozenset(by_name.keys() & names)
        if known not in self._picked:
            named = {id(rule) for name in known for rule in by_name[name]}
            self._picked[known] = [rule for rule in every if id(rule) in named]
        return self._picked[known]

    @classmethod
    def _check_rule(cls, rule_set: RuleSet, css_path_nodes: list[DOMNode]) -> Iterator[Specificity3]:
        for one in rule_set.selector_set:
            *above, last = one.selectors
            if last.check(css_path_nodes[-1]) and (not above or _check_selectors(one.selectors, css_path_nodes)):
                yield one.specificity


def _classes_in(rule: RuleSet) -> Iterator[str]:
    """Classes that are named in its selectors."""
    return (part.name for one in rule.selector_set for part in one.selectors if part.type is SelectorType.CLASS)


def is_styled(node: DOMNode) -> bool:
    """Whether the styles of `node` are looked at: it has come on a screen, and the program is not ending."""
    return node.parent is not None and node.app.is_running


def _update_classes(screen: Screen[Any], classes: Mapping[str, bool], update: bool = True, animate: bool = True) -> Screen[Any]:
    before = screen.classes
    DOMNode.update_classes(screen, classes, update=False)
    sheet, changed = screen.app.stylesheet, screen.classes ^ before
    if changed and update:
        assert isinstance(sheet, LeanStylesheet)
        sheet.update_by(changed, screen.walk_children(with_self=True), animate=animate)
    return screen


_update_focus_styles = Screen._update_focus_styles


def _update_focus_styles_seen(screen: Screen[Any], focused: Widget | None = None, blurred: Widget | None = None) -> None:
    if screen.app.is_running:
        _update_focus_styles(screen, focused, blurred)


textual.app.Stylesheet = LeanStylesheet  # type: ignore[attr-defined]  # an import of that module, not exported
Screen.update_classes = _update_classes  # type: ignore[assignment, method-assign]  # replaced on purpose
Screen._update_focus_styles = _update_focus_styles_seen  # type: ignore[assignment, method-assign]  # replaced on purpose
