"""Fits the constants of the kernels' predicted times (kernels/*/variants.inc, src/cpu/simd/simd_costs.inc) to measured
times, and says how far those in the sources are from them.

    tools/measure fit [--hold-out N] DATA.csv[.gz] ...
    tools/measure fit --predictions DATA.csv

DATA is a CSV of random problems from bench/peers/gpu_selection.py --csv, or a CSV of `msda bench --kernels all` such as
bench/baselines/h200.csv, whose few problems do not identify all constants. Write the constants that are printed into
the sources by hand. The model is the library's own: msda_cost_model, which is built with the tests, evaluates it.

The fit minimizes three errors: that of predicted times, as a ratio; since a plan takes the kernel predicted fastest, that
of each kernel's ratio to the fastest one of its problem; and the regret, how much longer the kernel takes that is predicted
fastest, shared by kernels predicted within some 3 % of each other. Predictions are those of problems that say where their
points land. Kernels for scattered points are left out of the last two where points are local. Large errors count less than
their square. A constant that the data say little about stays near the one in the sources; where they leave it open by more
than 25 % it is listed as not identified.

With --predictions nothing is fitted: a table in Markdown has what the sources predict for the workloads of DATA, whatever
the revisions there, and, in brackets, what was measured. Of a kernel with several revisions in DATA it has the newest alone,
whose measured times are not those of the others.
"""

import collections
import json
import pathlib
import subprocess
import tempfile

import numpy as np
from scipy.optimize import least_squares
from scipy.special import softmax

import parts
from document_tables import markdown, number as time_text
from measurements import ROOT, Refused, measured_problem, microseconds, read_csv, workload_list

NEEDED = ("kernel_id", "operation", "value_dtype", "coord_dtype", "math_mode", "input_mode", "median_us")
NEAR = 1.5  # times the fastest kernel's time: those that compare
LARGE = 0.2  # errors count less from here on
# How much the three errors count. What all kernels of a problem share, as how many points miss the caches, is in the first.
OF_TIMES, OF_RATIOS, OF_REGRET = 1.0, 1.0, 4.0
SHARED = 0.03  # predictions that are so near to each other share a problem's regret
MOST_REGRET = 0.5
PRIOR = 1.0  # how sure the sources' constants are before there are data: a factor of e
IDENTIFIED = 0.25
MOST_STEPS = 300


class Model:
    """The library's predictions with constants of one's own."""

    def __init__(self, program: pathlib.Path, rows: list[dict]):
        if not program.exists():
            raise Refused(f"{program} does not exist: build the target msda_cost_model, or name it with --model")
        done = subprocess.run([program], capture_output=True, text=True)
        if done.returncode != 0:
            raise Refused(done.stderr.strip())
        listed = json.loads(done.stdout)
        self.names = [name for name, _ in listed]
        self.values = np.array([value for _, value in listed], dtype=float)
        self._count = len(rows)
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(rows, file)
            file.flush()
            self._process = subprocess.Popen([program, file.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             stderr=subprocess.PIPE)
            self.predict(self.values)  # then the file has been read

    def predict(self, constants: np.ndarray) -> np.ndarray:
        try:
            self._process.stdin.write(np.ascontiguousarray(constants, dtype=float).tobytes())
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # what it says of it comes below
        answer = self._process.stdout.read(8 * self._count)
        if len(answer) < 8 * self._count:
            raise Refused(self._process.stderr.read().decode().strip() or "msda_cost_model ended early")
        return np.frombuffer(answer)

    def close(self) -> None:
        self._process.communicate()


class Data:
    """Measured times and which of them are of one problem."""

    def __init__(self, files: list[pathlib.Path], device: dict, is_wanted=lambda row: True):
        self.rows, self.workloads, times, problems = [], [], [], collections.defaultdict(list)
        workloads = {work["name"]: work for work in workload_list()}
        for file in files:
            _, rows = read_csv(file, NEEDED)
            for number, row in enumerate(rows, 1):
                try:
                    if not is_wanted(row):
                        continue
                    problem = measured_problem(row, workloads)
                    times.append(microseconds(row))
                except (Refused, KeyError, ValueError) as error:
                    raise Refused(f"{file}, row {number}: {error}") from error
                # Workloads that differ in their points alone are problems of their own.
                problems[row.get("workload"), row.get("problem"), json.dumps(problem)].append(len(self.rows))
                self.rows.append(problem | device | {"kernel_id": row["kernel_id"]})
                self.workloads.append(row.get("workload"))
        if not self.rows:
            raise Refused("no problem is left to fit to, or none to hold out")
        self.times = np.array(times)
        self.problems = list(problems.values())
        self.choices_of = [list(filter(self.may_be_chosen, problem)) for problem in self.problems]

    def may_be_chosen(self, i: int) -> bool:
        """As ids say it: kernels whose spread ends in c, where points are scattered; all others."""
        is_cached = self.rows[i]["kernel_id"].split("@")[0].endswith("c")
        return not is_cached or self.rows[i]["point_locality"] == "scattered"

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """(kernels, the fastest kernel of their problem), where they compare."""
        kernels, fastest = [], []
        for compared in filter(None, self.choices_of):
            best = min(compared, key=self.times.__getitem__)
            near = [i for i in compared if i != best and self.times[i] < NEAR * self.times[best]]
            kernels += near
            fastest += [best] * len(near)
        return np.array(kernels, dtype=int), np.array(fastest, dtype=int)

    def choices(self) -> tuple[np.ndarray, np.ndarray]:
        """(kernels that a plan may choose, their regrets), both [problem, kernel]; -1 and 0 behind a problem's last."""
        problems = [chosen for chosen in self.choices_of if len(chosen) > 1]
        shape = len(problems), max(map(len, problems), default=0)
        kernels, regrets = np.full(shape, -1), np.zeros(shape)
        for row, chosen in enumerate(problems):
            times = self.times[chosen]
            kernels[row, : len(chosen)] = chosen
            regrets[row, : len(chosen)] = np.minimum(times / times.min() - 1, MOST_REGRET)
        return kernels, regrets

    def regrets(self, predicted: np.ndarray) -> np.ndarray:
        """Of each problem, how much longer the kernel predicted fastest takes than the fastest of all."""
        regrets = []
        for problem, choices in zip(self.problems, self.choices_of):
            if len(problem) > 1 and choices:
                chosen = min(choices, key=predicted.__getitem__)
                regrets.append(self.times[chosen] / min(self.times[i] for i in problem) - 1)
        return np.array(regrets)


def fit(model: Model, data: Data) -> tuple[np.ndarray, np.ndarray]:
    """(constants, their relative errors; NaN where nothing depends on one)."""
    start, log_times = np.log(model.values), np.log(data.times)
    kernels, fastest = data.pairs()
    chosen, chosen_regrets = data.choices()

    def expected_regret(log_us: np.ndarray) -> np.ndarray:
        shares = softmax(np.where(chosen < 0, -np.inf, -log_us[chosen] / SHARED), axis=1)
        return (shares * chosen_regrets).sum(axis=1)

    def errors(logs: np.ndarray) -> np.ndarray:
        log_predicted = np.log(model.predict(np.exp(logs)))
        error = log_predicted - log_times
        regret = expected_regret(log_predicted) if chosen.size else np.zeros(0)
        return np.concatenate([OF_TIMES * rounded(error), OF_RATIOS * rounded(error[kernels] - error[fastest]),
                               OF_REGRET * regret])

    def rounded(error: np.ndarray) -> np.ndarray:  # squares of small ones, their size of large ones
        return np.sign(error) * LARGE * np.sqrt(2 * (np.sqrt(1 + (error / LARGE) ** 2) - 1))

    noise = 0.1  # what predictions are off by, in size: weighs the data against the prior

    def target(logs: np.ndarray) -> np.ndarray:
        return np.concatenate([errors(logs) / noise, (logs - start) / PRIOR])

    found = least_squares(target, start, x_scale=1.0, diff_step=1e-5, max_nfev=MOST_STEPS)
    if found.status == 0:
        raise Refused(f"the fit has not settled after {MOST_STEPS} steps")
    of_data = found.jac[: -len(start)]
    spread = np.std(errors(found.x)) / noise
    covariance = np.linalg.inv(of_data.T @ of_data / max(spread, 1e-6) ** 2 + np.eye(len(start)) / PRIOR**2)
    uncertainty = np.sqrt(np.diag(covariance))
    uncertainty[np.abs(of_data).max(axis=0) < 1e-9] = np.nan
    return np.exp(found.x), uncertainty


def describe(name: str, predicted: np.ndarray, data: Data) -> None:
    regrets = np.sort(data.regrets(predicted))
    text = ""
    if len(regrets):
        text = (f"; regret: median {np.median(regrets):.1%}, mean {np.mean(regrets):.1%}, 90 % at most"
                f" {regrets[int(0.9 * (len(regrets) - 1))]:.1%}, worst {regrets[-1]:.1%}, above 8 %"
                f" {np.sum(regrets > 0.08)} of {len(regrets)}")
    error = np.expm1(np.sqrt(np.mean(np.log(predicted / data.times) ** 2)))  # the root of the mean square, as a ratio less 1
    print(f"  {name}: predictions are off by {error:.1%}{text}")


def print_table(model: Model, fitted: np.ndarray, uncertainty: np.ndarray) -> None:
    print(f"{'constant':36} {'in the sources':>14} {'fitted':>10} {'+-':>7} {'differs by':>10}")
    for name, value, found, error in zip(model.names, model.values, fitted, uncertainty):
        if np.isnan(error):
            continue  # of a family that has no rows
        row = f"{name:36} {value:14.4g}"
        print(f"{row} {found:10.4g} {error:7.1%} {found / value - 1:+10.1%}" if error < IDENTIFIED
              else f"{row}   not identified by these data")


def newest_revisions(ids: list[str]) -> list[str]:
    """The ids with the last revision that any of them has of their kernel."""
    last = {}
    for stem, _, revision in (kernel_id.partition("@") for kernel_id in ids):
        last[stem] = max(last.get(stem, 0), int(revision))
    return [f"{stem}@{last[stem]}" for stem, _, _ in (kernel_id.partition("@") for kernel_id in ids)]


def print_predictions(program: pathlib.Path, data: Data) -> None:
    if None in data.workloads:
        raise Refused("--predictions is for CSVs that have a column workload")
    measured = [row["kernel_id"] for row in data.rows]
    ids = newest_revisions(measured)
    model = Model(program, [row | {"kernel_id": kernel_id} for row, kernel_id in zip(data.rows, ids)])
    predicted = model.predict(model.values)
    model.close()
    cells = {}
    for i, key in enumerate(zip(ids, data.workloads)):
        cells[key] = time_text(predicted[i]) + (f" ({time_text(data.times[i])})" if ids[i] == measured[i] else "")
    workloads = list(dict.fromkeys(data.workloads))
    rows = [[f"`{kernel_id}`", *(cells.get((kernel_id, workload), "") for workload in workloads)]
            for kernel_id in sorted(set(ids))]
    print(markdown([["predicted (measured)", *workloads], *rows]), end="")


def main(words: list[str]) -> int:
    parser = parts.parser("measure fit", __doc__)
    parser.add_argument("data", nargs="+", type=pathlib.Path, metavar="DATA.csv")
    parser.add_argument("--predictions", action="store_true", help="print predicted beside measured times, and fit nothing")
    parser.add_argument("--hold-out", type=int, default=0, metavar="N",
                        help="leave out drawn problems whose number N divides, and say how good the fit is for them")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "build/release/bin/msda_cost_model",
                        help="default %(default)s")
    parser.add_argument("--sm", type=int, default=90, help="compute capability of the data's GPU (default %(default)s)")
    parser.add_argument("--sm-count", type=int, default=132, help="its multiprocessors (default %(default)s)")
    parser.add_argument("--threads", type=int, help="the data are of a CPU, with so many threads")
    arguments = parser.parse_args(words)
    device = {"threads": arguments.threads} if arguments.threads else {"sm": arguments.sm, "sm_count": arguments.sm_count}
    is_held_out = lambda row: arguments.hold_out and "problem" in row and int(row["problem"]) % arguments.hold_out == 0
    data = Data(arguments.data, device, lambda row: not is_held_out(row))
    if arguments.predictions:
        print_predictions(arguments.model, data)
        return 0
    model = Model(arguments.model, data.rows)
    fitted, uncertainty = fit(model, data)
    print_table(model, fitted, uncertainty)
    print(f"{len(data.times)} times of {len(data.problems)} problems")
    describe("sources", model.predict(model.values), data)
    describe("fitted", model.predict(fitted), data)
    model.close()
    if arguments.hold_out:
        held_out = Data(arguments.data, device, is_held_out)
        model = Model(arguments.model, held_out.rows)
        describe("sources, held out", model.predict(model.values), held_out)
        describe("fitted, held out", model.predict(fitted), held_out)
        model.close()
    return 0
