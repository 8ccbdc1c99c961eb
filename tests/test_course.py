"""The course of a metric is bounded, and covers the whole time."""

from __future__ import annotations

from tfapp.course import MAX_POINTS, Course, thinned


def test_what_is_no_news_is_no_point():
    course: Course[float] = Course()
    for second in range(5):
        course.add(float(second), 7, 1.0)
    assert course.points() == ((0.0, 7, 1.0),)


def test_a_long_course_has_few_points_from_begin_to_end():
    course: Course[float] = Course()
    for step in range(10_001):
        course.add(float(step), step, float(step))
        assert len(course.points()) <= MAX_POINTS + 1
    points = course.points()
    assert points[0] == (0.0, 0, 0.0)
    assert points[-1] == (10_000.0, 10_000, 10_000.0)
    gaps = {later[0] - earlier[0] for earlier, later in zip(points[:-1], points[1:-1])}
    assert len(gaps) == 1, "as dense at the begin as at the end"
    assert len(points) > MAX_POINTS / 3


def test_what_is_thinned_keeps_its_ends():
    points = thinned(range(1000))
    assert (points[0], points[-1]) == (0, 999)
    assert MAX_POINTS / 2 <= len(points) <= MAX_POINTS
    assert thinned(range(MAX_POINTS)) == tuple(range(MAX_POINTS))
