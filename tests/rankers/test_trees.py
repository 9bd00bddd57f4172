import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from prsrank.errors import InputError
from prsrank.export.solr import less_slack
from prsrank.rankers.trees import TreeEnsemble, exact, float32_above, float32_at_most

doubles = st.floats(allow_nan=False, width=64)
finite32 = st.floats(allow_nan=False, allow_infinity=False, width=32)


@given(doubles, finite32)
def test_float32_thresholds_decide_every_value_alike(threshold, value):
    at_most, above = float32_at_most(np.array([threshold])), float32_above(np.array([threshold]))
    assert at_most.dtype == above.dtype == np.float32
    for v in (value, *beside(np.float32(min(max(threshold, -3e38), 3e38)))):
        v = np.float32(v)
        assert (float(v) <= threshold) == (v <= at_most[0]) == (v < above[0])


def beside(value):
    return value, np.nextafter(value, np.float32(np.inf)), np.nextafter(value, -np.float32(np.inf))


near_slack = st.floats(-(2.0**-18), 2.0**-18, width=32)


@given(finite32 | near_slack)
@example(1e-6)
def test_less_slack_reaches_the_highest_sum_that_is_not_above(threshold):
    slack, t = np.float32(1e-6), np.float32(threshold)
    lowered = less_slack(t)
    assert lowered + slack <= t
    above = np.nextafter(lowered, np.float32(np.inf)) + slack
    assert lowered + slack == t or above > t
    assert (lowered + slack >= 0) == (t >= 0)


@given(finite32)
def test_decimals_give_the_number_back_by_either_way_of_reading(value):
    text = exact(np.float32(value))
    assert np.float32(text) == np.float32(float(text)) == np.float32(value)


@given(arrays(np.float32, (40, 3), elements=st.floats(width=32, allow_infinity=False)))
def test_values_near_zero_go_where_lightgbm_sends_them(rows):
    import lightgbm

    text = lightgbm_text("-1.0000000180025095e-35 1e-36 0", "2 2 2")
    tree = TreeEnsemble(text).trees[0]
    rows[::2] *= np.float32(1e-36)
    node = np.zeros(len(rows), np.int64)
    while (inner := node < tree.splits).any():
        value = rows[np.arange(len(rows)), tree.features[np.where(inner, node, 0)]]
        split = np.where(inner, node, 0)
        left = np.where(np.isnan(value), tree.missing_left[split], value <= tree.thresholds[split])
        node = np.where(inner, np.where(left, tree.left[split], tree.right[split]), node)
    expected = lightgbm.Booster(model_str=text).predict(rows, num_threads=1)
    assert (tree.leaf_values[node - tree.splits] == expected).all()


def lightgbm_text(thresholds: str, decisions: str, *, extra: str = "", linear: int = 0) -> str:
    """A chain of three splits on features 0, 1, 2."""
    return f"""tree
version=v4
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx=2
{extra}feature_names=a b c
feature_infos=[-1:1] [-1:1] [-1:1]

Tree=0
num_leaves=4
num_cat=0
split_feature=0 1 2
split_gain=1 1 1
threshold={thresholds}
decision_type={decisions}
left_child=1 2 -1
right_child=-2 -3 -4
leaf_value=1 2 3 4
leaf_weight=1 1 1 1
leaf_count=1 1 1 1
internal_value=0 0 0
internal_weight=0 0 0
internal_count=3 3 3
is_linear={linear}
shrinkage=1


end of trees

parameters:
end of parameters
"""


def test_missing_types():
    # 2: NaN is 0, 8: NaN goes right, 10: NaN goes left
    tree = TreeEnsemble(lightgbm_text("-1 -1 1", "2 10 8")).trees[0]
    assert tree.missing_left.tolist() == [False, True, False]
    assert TreeEnsemble(lightgbm_text("-1 -1 1", "2 10 8")).learned_missing == [1, 2]
    assert TreeEnsemble(lightgbm_text("1 1 1", "6 10 2")).learned_missing == []


@pytest.mark.parametrize(
    ("decisions", "linear", "says"),
    [
        ("2 1 2", 0, "feature 2 has categorical splits"),
        ("2 2 4", 0, "feature 3 takes 0 for a missing value"),
        ("2 2 2", 1, "linear trees"),
    ],
)
def test_splits_that_cannot_be_held_are_refused(decisions, linear, says):
    with pytest.raises(InputError, match=says):
        TreeEnsemble(lightgbm_text("1 1 1", decisions, linear=linear)).trees  # noqa: B018


def test_averaged_trees_are_divided():
    one = lightgbm_text("1 1 1", "2 2 2", extra="average_output\n")
    second = one.split("Tree=0")[1].split("\n\nend of trees")[0]
    both = one.replace("\n\nend of trees", "\n\nTree=1" + second + "\n\nend of trees")
    assert [tree.leaf_values.tolist() for tree in TreeEnsemble(both).trees] == [
        [0.5, 1, 1.5, 2]
    ] * 2
