"""Linear scaling efficiency against the figures of the vendors' guides."""

import pytest

from clusterctl.benchmarks.scaling import Point, between_nodes, efficiencies, efficiency, percent


@pytest.mark.parametrize(
    ("images_per_s", "ranks", "shown"),
    [(6469, 8, "98.73%"), (12299, 16, "93.85%"), (12532, 16, "95.63%")],
)
def test_the_table_that_closes_the_taco_train_guide(images_per_s, ranks, shown):
    assert percent(efficiency(images_per_s, 819, ranks)) == shown


def test_points_are_measured_against_one_rank():
    points = (Point(1, 1, 819.0), Point(8, 1, 6469.0), Point(16, 2, 12299.0))
    assert [percent(figure) for figure in efficiencies(points)] == ["100.00%", "98.73%", "93.85%"]


def test_between_nodes_is_many_over_one_over_the_number_of_nodes():
    points = (Point(1, 1, 819.0), Point(8, 1, 6469.0), Point(16, 2, 12299.0))
    assert between_nodes(points) == {16: pytest.approx(12299 / 6469 / 2)}


def test_no_figure_without_its_reference():
    assert efficiencies((Point(8, 1, 6469.0), Point(16, 2, 12299.0))) == (None, None)
    assert between_nodes((Point(4, 1, 10.0), Point(16, 2, 20.0))) == {}
    assert percent(None) == "-"


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match="efficiency needs values above zero"):
        efficiency(10.0, 0.0, 2)


def test_an_efficiency_is_never_rounded_up():
    assert percent(0.99999) == "99.99%"
    assert percent(1.0) == "100.00%"
    assert percent(0.9873) == "98.73%"
