"""What is known of owners beside their objects."""

from specon_manager.backends.kube.objects.owner import OWNER_RESOURCES
from specon_manager.backends.kube.watching.owner_book import OwnerBook
from support.kube.job_objects import job_object


def known(*places):
    book = OwnerBook()
    for kind, namespace in places:
        obj = job_object(kind)
        obj["metadata"] |= {"namespace": namespace, "uid": f"{kind}-{namespace}"}
        book.changed(None, OWNER_RESOURCES[kind][1](obj))
    return book


def test_a_controller_that_lets_nobody_scale_is_known_for_its_kind_and_namespace():
    """One refusal is enough; what the object of one tenant brings about is no other tenant's business."""
    book = known(("JobSet", "a"), ("JobSet", "b"), ("Job", "a"))
    assert book.fix("JobSet", "a")
    assert not book.fix("JobSet", "a")
    fixed = {key: book.at(*key, "train").fixed for key in (("JobSet", "a"), ("JobSet", "b"), ("Job", "a"))}
    assert fixed == {("JobSet", "a"): True, ("JobSet", "b"): False, ("Job", "a"): False}
    assert book.owner_with_uid("JobSet-a").fixed
