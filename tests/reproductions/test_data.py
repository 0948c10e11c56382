"""Measured tables against their published facts, and the laser among the benchmark series."""

from pathlib import Path

import numpy as np
import pytest

from reproductions import data
from reproductions.data import catalogue
from streamgp.data import Series

REPOSITORY = Path(__file__).parents[2]


def table(name: str) -> data.Table:
    try:
        return data.load(name)
    except FileNotFoundError as missing:
        pytest.skip(str(missing))


def laser(n: int | None = None, **settings: object) -> Series:
    try:
        return data.laser(n, **settings)
    except FileNotFoundError as missing:
        pytest.skip(str(missing))


# ---- series ----


def test_more_rows_than_the_laser_has_are_refused():
    with pytest.raises(ValueError, match="n must be at most 10092"):
        laser(10_093)


def test_laser_is_the_recorded_series_over_its_maximum_centred():
    recorded = np.append(table("santafe_laser").X[:, 0], table("santafe_laser").Y[-1])
    s = laser(noise_std=0.0)
    assert recorded.shape == (10_093,)
    np.testing.assert_allclose(s.X[:, 0], (recorded / 255)[:-1] - np.mean(recorded / 255), atol=1e-14)
    np.testing.assert_allclose(s.truth, (recorded / 255)[1:] - np.mean(recorded / 255), atol=1e-14)


# rows, inputs, targets, first row of X (beginning), first target, sum of all targets
FACTS = {
    "sarcos/test": (4449, 21, 7, [0.019478, -0.134218], 50.292652, 136853.025441),
    "sarcos/first5800": (5800, 21, 7, [0.019478, -0.134218], 50.292652, 157420.388874),
    "sarcos/torques": (44483, 7, 7, [50.292652, -36.971897], 44.104164, 1368369.95006),
    "sarcos/ias": (19491, 21, 7, [0.019478], 50.292652 / 3, 176367.926632),
    "barrett_wam": (15000, 21, 7, [-0.000918301254], 1.02972997, 373110.835855),
    "barrett_wam/hyper": (1200, 21, 7, [-0.000918301254], 1.02972997, 29831.813077),
    "baxter_dynamics/inverse": (19295, 21, 7, [0.07823302], 1.668, -104045.32),
    "baxter_dynamics/forward": (19295, 21, 14, [0.07823302], 0.07823302, 23884.117224),
    "kin40k": (40000, 8, 1, [1.5519641, 0.58877295], 0.57637391, 615.694453),
    "actuator": (1024, 1, 1, [-0.0068164], -0.000262404, 5.927949),
    "drives/1": (500, 1, 1, [1.0], 0.03174603, 662.070818),
    "drives/2": (500, 1, 1, [1.5], 0.01709402, 1490.354090),
    "drives/3": (500, 1, 1, [0.5], 0.03174603, 243.604396),
    "gefcom2012_load": (38064, 11, 20, [46, 38, 44, 45], 16853, 62697783543),
    "gefcom2012_wind": (130963, 16, 1, [2.91, -2.16], 0.201, 37295.93),
    "gefcom2012_wind/7": (18709, 16, 1, [2.29, -2.34], 0.0, 5449.365),
    "santafe_laser": (10092, 1, 1, [86], 141, 603794),
    "silverbox": (131072, 1, 1, [0.00577562], 0.00939780342, 106.954101),
    "bike_hourly": (17379, 12, 1, [1, 0, 1, 0, 0, 6, 0, 1, 0.24, 0.2879, 0.81, 0], 16, 3292679),
    "pm10_germany_2005": (23230, 4, 1, [538708.583, 5947029.695, 1, 8], 16.696, 415499.33),
    "lasa_handwriting/Angle": (6993, 2, 2, [-43.79310345, -3.10344828], 0.0, 111238.928895),
    "hr_limit_cycles/infinity": (1407, 2, 2, [11.28536515, -5.57818382], 0.75089916, 139.009792),
    "driving_udacity/round2": (33808, 2, 1, [0.375, 23.00443135], 0.00103893906, -286.644968),
    "driving_udacity/round1": (10294, 2, 1, [1.1875, 1.07380002], 0.11261331, -30.758831),
    "comma2k19_segment/speed": (4967, 6, 1, [2.93562588], 7.97430556, 83150.116667),
    "comma2k19_segment/yaw": (6244, 6, 1, [-0.100494385], 0.00372314453, -2.7878723),
    "uci_elevators": (16599, 18, 1, [-294.2, -27.201], -0.041959, -0.0020789),
    "uci_pumadyn32nm": (8192, 32, 1, [-0.85451, -0.36712], -0.86927, 0.00337468),
    "co2_mauna_loa": (2284, 1, 1, [1958 + 87 / 365], 316.1, 756816.5),
    "mcycle": (133, 1, 1, [2.4], 0.0, -3397.6),
    "sysid_classics/dryer": (1000, 1, 1, [6.41], 4.7660989, 4890.10004),
    "sysid_classics/ballbeam": (1000, 1, 1, [-0.001963499], -0.004885198, -20.157547),
    "sysid_classics/flutter": (1024, 1, 1, [6.6556145e-08], 4.3539883e-08, -2.24971933e-07),
    "sysid_classics/gas_furnace": (296, 1, 1, [-0.109], 53.8, 15838.7),
    "sysid_classics/tank": (2500, 1, 2, [0.85964003], 0.38085938, 19450.278320),
    "chaotic_reference/lorenz": (10000, 1, 1, [35.0], 34.766667, 249073.688715),
    "chaotic_reference/mg30": (4999, 1, 1, [0.89], 0.89, 4471.740921),
}


@pytest.mark.parametrize("name", FACTS)
def test_a_table_has_its_published_rows_columns_and_values(name):
    rows, d, p, x, y, total = FACTS[name]
    t = table(name)
    assert t.name == name
    assert t.X.shape == (rows, d) == (rows, len(t.inputs))
    assert t.Y.shape == ((rows,) if p == 1 else (rows, p))
    assert len(t.targets) == p
    np.testing.assert_allclose(t.X[0, : len(x)], x, rtol=1e-6)
    np.testing.assert_allclose(np.ravel(t.Y)[0], y, rtol=2e-6, atol=1e-9)
    np.testing.assert_allclose(np.nansum(t.Y), total, rtol=1e-7, atol=1e-8)
    assert np.all(np.isfinite(t.X))
    assert t.X.dtype == t.Y.dtype == np.float64


def test_every_table_loads_and_its_sequences_are_in_order():
    table("lasa_handwriting")
    there = data.available()
    for name in there:
        if name.startswith(("lasa_handwriting/", "hr_limit_cycles/", "gefcom2012_wind/")):
            t = data.load(name)
            assert t.starts[0] == 0
            assert np.all(np.diff(t.starts) > 0)
            assert t.starts[-1] < len(t.X)
            assert np.all(np.isfinite(t.X))
            assert np.all(np.isfinite(t.Y))
            if name.startswith("lasa"):
                np.testing.assert_array_equal(t.starts, 999 * np.arange(7))


def test_a_folder_alone_means_its_first_table():
    assert table("drives").name == "drives/1"
    assert table("hr_limit_cycles").name == "hr_limit_cycles/infinity"
    assert table("sarcos").name == "sarcos/test"


# ---- how tables are found ----


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("sarcoss", "sarcos"), ("lasa_handwriting/Angel", "lasa_handwriting/Angle"), ("kin4k", "kin40k")],
)
def test_an_unknown_name_is_refused_with_the_nearest(name, suggestion):
    with pytest.raises(ValueError, match=f"there is no table '{name}'. Did you mean '{suggestion}'"):
        data.load(name)


def test_a_name_that_is_no_text_is_refused():
    with pytest.raises(TypeError, match="the name of a table must be text"):
        data.load(7)


def test_without_a_folder_the_variable_the_file_and_the_source_are_named(monkeypatch):
    monkeypatch.delenv("STREAMGP_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=r"STREAMGP_DATA.*actuator/actuator\.mat.*zhenwendai/RGP"):
        data.load("actuator")
    with pytest.raises(FileNotFoundError, match="STREAMGP_DATA"):
        data.available()
    with pytest.raises(FileNotFoundError, match=r"santafe_laser/santafe\.dat.*steven2358/kafbox"):
        data.laser()


def test_a_folder_that_does_not_exist_is_named(monkeypatch, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere, named by root=, does not exist.*mcycle/mcycle\.csv"):
        data.load("mcycle", tmp_path / "nowhere")
    monkeypatch.setenv("STREAMGP_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="named by the environment variable STREAMGP_DATA"):
        data.available()


def test_a_missing_file_is_named_with_its_source(tmp_path):
    with pytest.raises(FileNotFoundError) as missing:
        data.load("mcycle", tmp_path)
    sentence = str(missing.value)
    assert "'mcycle'" in sentence
    assert "mcycle/mcycle.csv" in sentence
    assert str(tmp_path) in sentence
    assert "AaltoML/BayesNewton" in sentence


def test_available_lists_the_tables_whose_files_are_there(monkeypatch, tmp_path):
    assert data.available(tmp_path) == ()
    (tmp_path / "mcycle").mkdir()
    (tmp_path / "mcycle" / "mcycle.csv").write_text("1,2.4,0\n2,2.6,-1.3\n")
    assert data.available(tmp_path) == ("mcycle",)
    monkeypatch.setenv("STREAMGP_DATA", str(tmp_path))
    assert data.available() == ("mcycle",)
    np.testing.assert_array_equal(data.load("mcycle").X, [[2.4], [2.6]])


def test_an_empty_cell_is_a_missing_target(tmp_path):
    (tmp_path / "mcycle").mkdir()
    (tmp_path / "mcycle" / "mcycle.csv").write_text("1,2.4,\n2,2.6,-1.3\n")
    np.testing.assert_array_equal(data.load("mcycle", tmp_path).Y, [np.nan, -1.3])


@pytest.mark.parametrize("name", ["mcycle", "kin40k", "actuator", "bike_hourly", "hr_limit_cycles/star"])
def test_a_damaged_file_is_refused_with_its_source(tmp_path, name):
    entry = catalogue.CATALOGUE[name]
    path = tmp_path / entry.file
    path.parent.mkdir()
    path.write_bytes(b"\x80 this is no data \x00\x01")
    with pytest.raises(ValueError, match=r"does not hold the table .* Fetch the file again\. It "):
        data.load(name, tmp_path)


def test_a_file_with_other_columns_is_refused(tmp_path):
    (tmp_path / "sarcos").mkdir()
    np.savez(tmp_path / "sarcos" / "sarcos_first5800.npz", X=np.zeros((40, 20)), Y=np.zeros((40, 7)))
    with pytest.raises(ValueError, match=r"21 inputs and 7 targets: the columns are \(40, 20\) and \(40, 7\)"):
        data.load("sarcos/first5800", tmp_path)


def test_wind_forecasts_that_are_missing_are_refused(tmp_path):
    (tmp_path / "gefcom2012_wind").mkdir()
    np.savez(
        tmp_path / "gefcom2012_wind" / "gef_wind.npz",
        in_kaggle_train=np.ones(60, dtype=bool),
        forecast_hundredths=np.full((7, 5, 48, 4), -99999),
        power_thousandths=np.zeros((60, 7)),
    )
    with pytest.raises(ValueError, match="forecasts are missing for some of the hours"):
        data.load("gefcom2012_wind", tmp_path)


def test_every_table_is_documented():
    page = (REPOSITORY / "reproductions" / "data" / "measured.md").read_text()
    for name in {full.partition("/")[0] for full in data.names()}:
        assert f"`{name}" in page, name


def test_every_entry_says_where_its_file_comes_from():
    for name, entry in catalogue.CATALOGUE.items():
        assert entry.where.startswith("It "), name
        assert entry.where.endswith("."), name
        assert entry.file.startswith(name.partition("/")[0] + "/"), name
