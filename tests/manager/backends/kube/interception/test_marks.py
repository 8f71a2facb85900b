"""The descheduler's annotation on pods whose eviction is under way."""

from types import SimpleNamespace

import msgspec
import pytest

from specon_manager.backends.kube.interception.decision import Situation, is_put_off
from specon_manager.backends.kube.interception.marks import Marks
from specon_manager.backends.kube.objects.annotation_keys import EVICT_ONLY, IN_PROGRESS, OURS
from specon_manager.backends.kube.records.external import MoveState
from support.kube.eviction_facts import NOW, pod, wish


class Scene:
    """One pod and its wishes; `annotation` is what the pod has by now."""

    def __init__(self):
        self.annotation, self.wishes, self.now = "", [], NOW
        self.written = []
        desk = SimpleNamespace(
            ready=True,
            cache=SimpleNamespace(pods=lambda: [self.pod]),
            wishes=lambda _: self.wishes,
            puts_off=lambda about: is_put_off(
                about, Situation(pod=about, wishes=self.wishes, patience=60.0), self.now
            ),
        )
        self.marks = Marks(self, desk, holds=lambda: True, wall=lambda: self.now)

    @property
    def pod(self):
        marks = {EVICT_ONLY: OURS, **({IN_PROGRESS: self.annotation} if self.annotation else {})}
        return pod(annotations=marks)

    async def patch(self, resource, name, namespace, change, *, form):
        del resource, name, namespace, form
        self.annotation = change["metadata"]["annotations"][IN_PROGRESS] or ""
        self.written.append(self.annotation)

    async def looks(self, times):
        for _ in range(times):
            await self.marks.keep()
            self.now += 2.0


async def test_a_pod_has_it_while_its_move_is_open_and_no_longer():
    """The descheduler does not ask meanwhile, and may ask again afterwards."""
    scene = Scene()
    scene.wishes = [wish(MoveState.CHECKPOINTING)]
    await scene.looks(3)
    scene.wishes = [wish(MoveState.ROLLED_BACK, ended=scene.now)]
    await scene.looks(3)
    assert scene.written == [OURS, ""]


@pytest.mark.parametrize("state", [MoveState.ROLLED_BACK, MoveState.REFUSED])
async def test_a_move_that_was_over_before_a_look_is_shown_for_a_moment(state):
    """Who was told to wait assumes that it goes on, for ten minutes, until the annotation is taken off."""
    scene = Scene()
    scene.wishes = [wish(state, ended=scene.now - 1.0)]
    await scene.looks(5)
    assert scene.written == [OURS, ""]


async def test_a_new_leader_does_not_tell_of_moves_of_long_ago():
    """Those moves are known by then."""
    scene = Scene()
    scene.wishes = [wish(MoveState.ROLLED_BACK, age=1000.0, ended=scene.now - 900.0)]
    await scene.looks(3)
    assert scene.written == []


async def test_a_move_that_takes_longer_than_its_patience_does_not_keep_the_pod():
    """The annotation is taken off, so that the descheduler asks again, and its eviction passes."""
    scene = Scene()
    scene.wishes = [wish(MoveState.CHECKPOINTING, age=50.0)]
    await scene.looks(10)
    assert scene.written == [OURS, ""]
    scene.wishes = [msgspec.structs.replace(scene.wishes[0], state=MoveState.ROLLED_BACK)]
    await scene.looks(2)
    assert scene.written == [OURS, ""]
