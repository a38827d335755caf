"""Styles of widgets, in nine ways quicker than Textual's own; checked against 8.2.8.

- Textual goes through all rules of all style sheets for each widget, and again for each of its parts that have styles of their own. Here
  the rules for the same types, classes and id are picked once.
- Textual finds what holds for a widget by these rules each time anew. Here that is found once for all widgets that the rules cannot tell
  apart: by their own names and states, and by those of the widgets around them that a rule looks at.
- Textual sets the styles of a new widget one by one, and asks after each who is to be drawn anew. Here they are set together: a widget that
  was never on screen is drawn as a whole.
- Textual compares all styles of a widget, defaults among them, before and after, to see which move from one to the other, and sets all that are
  stated. Here those that differ are set, unless a rule says that any moves.
- Textual makes a node for each part of a widget, with styles of its own, each time that the widget is styled. Here a part has one node.
- Textual looks for the ancestors that a rule names before it looks at the widget. Here the widget comes first, and is enough for most rules.
- Textual styles every widget anew when the screen gets the class of another size. Here those are that rules with this class are for.
- Textual styles a widget in its making as soon as it gets a class, and once more as it comes on a screen. Here that is the first time.
- Textual styles what the cursor leaves as the program ends. Here nothing is styled any more once it does.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Any

import textual.app
from textual.css.match import _check_selectors
from textual.css.model import RuleSet, SelectorType
from textual.css.styles import RulesMap, Styles
from textual.css.stylesheet import Stylesheet
from textual.css.types import Specificity3
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widget import Widget

NONE = frozenset[str]()
ORDERS = frozenset({"first-of-type", "last-of-type", "first-child", "last-child", "empty"})
PARITIES = frozenset({"odd", "even"})
"""States by the place among others, of which Textual keeps on each node whether a rule names one."""


class Picked:
    """Rules for the same types, classes and id, and what they look at."""

    def __init__(self, names: frozenset[str], rules: list[RuleSet]) -> None:
        self.names = names
        self.rules = rules
        selectors = [one.selectors for rule in rules for one in rule.selector_set]
        self._states = sorted({state for parts in selectors for state in parts[-1].pseudo_classes})
        above = [part for parts in selectors for part in parts[:-1]]
        self._above = {kind: frozenset(part.name for part in above if part.type is kind) for kind in SelectorType}
        self._types_above: dict[type, frozenset[str]] = {}
        """Class of a node -> names of its types, "*" among them, that a rule looks for around another node."""
        self._states_above = sorted({state for part in above for state in part.pseudo_classes})
        self._looks_above = bool(above)

    @cached_property
    def pseudo_classes(self) -> frozenset[str]:
        """States that any of the rules names."""
        return frozenset({state for rule in self.rules for state in rule.pseudo_classes})

    def seen_of(self, node: DOMNode) -> Hashable:
        """All of `node` and of what is around it that the rules look at: the same for two nodes, and so are their styles."""
        around = []
        above = node._parent if self._looks_above else None
        while isinstance(above, DOMNode):
            named = self._named(above)
            around.append((named, (*map(above.has_pseudo_class, self._states_above),) if any(named) else ()))
            above = above._parent
        return self.names, (*map(node.has_pseudo_class, self._states),), (*around,)

    def _named(self, node: DOMNode) -> tuple[frozenset[str], frozenset[str], str | None]:
        """Types, classes and id of `node` that a rule looks for around another node."""
        types = self._types_above.get(type(node))
        if types is None:
            types = self._above[SelectorType.UNIVERSAL] | self._above[SelectorType.TYPE] & node._css_types
            self._types_above[type(node)] = types
        classes = self._above[SelectorType.CLASS]
        own = NONE if classes.isdisjoint(node._classes) else classes & node._classes
        return types, own, node._id if node._id in self._above[SelectorType.ID] else None


class Rules:
    """All rules of the style sheets, and what was found by them."""

    def __init__(self, every: list[RuleSet], by_name: dict[str, list[RuleSet]]) -> None:
        self._every = every
        self.by_name = by_name
        self._picked: dict[frozenset[str], Picked] = {}
        """Types, classes and id that rules are for -> these rules, in their order."""
        self.found: dict[Hashable, RulesMap] = {}
        """Names and states of a node, and of those around it, that the rules look at -> its styles."""

    def picked_for(self, names: AbstractSet[str]) -> Picked:
        """Rules for any of `names`."""
        known = frozenset(self.by_name.keys() & names)
        if known not in self._picked:
            named = {id(rule) for name in known for rule in self.by_name[name]}
            self._picked[known] = Picked(known, [rule for rule in self._every if id(rule) in named])
        return self._picked[known]


class LeanStylesheet(Stylesheet):
    """A style sheet that picks the rules for the same names, and finds the styles of nodes that they cannot tell apart, once."""

    def __init__(self, *, variables: dict[str, str] | None = None) -> None:
        super().__init__(variables=variables)
        self._read = Rules([], {})
        self._at_hand: list[RuleSet] | None = None
        """Rules for the node that is being styled; None: no node is."""
        self._sought: Hashable = None
        """Key in `Rules.found` of the node whose styles are being found; None: they are known."""

    @property
    def rules(self) -> list[RuleSet]:
        """All rules; of a node that is being styled, those that name it."""
        return super().rules if self._at_hand is None else self._at_hand

    def apply(self, node: DOMNode, *, animate: bool = False, cache: Any = None) -> None:  # noqa: ARG002  # what was found is kept here, and longer
        """Style `node`, and its parts with styles of their own."""
        self._at_hand = None
        picked = self._picked_for(node._selector_names)
        seen = picked.seen_of(node)
        if (found := self._read.found.get(seen)) is not None:
            self._sought = None
            node._has_hover_style = "hover" in picked.pseudo_classes
            node._has_focus_within = "focus-within" in picked.pseudo_classes
            node._has_order_style = not ORDERS.isdisjoint(picked.pseudo_classes)
            node._has_odd_or_even = not PARITIES.isdisjoint(picked.pseudo_classes)
            self.replace_rules(node, found, animate=animate)
            self._process_component_classes(node)
            return
        self._at_hand, self._sought = picked.rules, seen
        try:
            super().apply(node, animate=animate)
        finally:
            self._at_hand = None

    def replace_rules(self, node: DOMNode, rules: RulesMap, animate: bool = False) -> None:  # type: ignore[override]  # asked of a sheet alone
        """Give `node` the styles `rules`."""
        if self._sought is not None:
            self._read.found[self._sought] = rules = _settled(rules)
            self._sought = None
        if animate and "transitions" in rules:
            super().replace_rules(node, rules, animate=animate)
            return
        styles = node.styles.base
        if animate or node._is_mounted:
            before = styles._rules
            for name in before.keys() | rules.keys():
                if (value := rules.get(name)) != before.get(name):
                    setattr(styles, name, value)
            node.notify_style_update()
            return
        shown = styles._rules.get("display")
        if styles._rules != rules:
            styles.reset()
            styles.merge_rules(rules)
        if shown != styles._rules.get("display") and node.parent:
            node._nodes.updated()
        node.notify_style_update()

    def _process_component_classes(self, node: DOMNode) -> None:
        """Style the parts of `node`, and draw it anew where one has changed."""
        changed = False
        for name in node._get_component_classes():
            if name not in node._component_styles:
                new = DOMNode(classes=name)
                new._attach(node)
                node._component_styles[name] = new.styles
            styles = node._component_styles[name].base
            before, part = styles._updates, styles.node
            assert part is not None
            self.apply(part)
            changed |= styles._updates != before
        if changed:
            node.refresh()

    def update_by(self, classes: AbstractSet[str], nodes: Iterable[DOMNode], *, animate: bool) -> None:
        """Style those of `nodes` anew that have rules, for them or their parts, in which one of `classes` is named."""
        concerned = []
        for node in nodes:
            parts = (f".{part}" for part in node._get_component_classes())
            if any(not classes.isdisjoint(_classes_in(rule)) for rule in self._picked_for(node._selector_names.union(parts)).rules):
                concerned.append(node)
            else:
                node.notify_style_update()  # it may stand on what has another colour now
        self.update_nodes(concerned, animate=animate)

    def _picked_for(self, names: AbstractSet[str]) -> Picked:
        every, by_name = self.rules, self.rules_map
        if by_name is not self._read.by_name:
            self._read = Rules(every, by_name)
        return self._read.picked_for(names)

    @classmethod
    def _check_rule(cls, rule_set: RuleSet, css_path_nodes: list[DOMNode]) -> Iterator[Specificity3]:
        for one in rule_set.selector_set:
            *above, last = one.selectors
            if last.check(css_path_nodes[-1]) and (not above or _check_selectors(one.selectors, css_path_nodes)):
                yield one.specificity


def _settled(rules: RulesMap) -> RulesMap:
    """`rules` with values as Textual sets them: some are parsed only then."""
    styles = Styles()
    for name, value in rules.items():
        setattr(styles, name, value)
    return styles._rules


def _classes_in(rule: RuleSet) -> Iterator[str]:
    """Classes that are named in its selectors."""
    return (part.name for one in rule.selector_set for part in one.selectors if part.type is SelectorType.CLASS)


def is_styled(node: DOMNode) -> bool:
    """True if the styles of `node` are looked at: it has come on a screen, and the program is not ending."""
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
