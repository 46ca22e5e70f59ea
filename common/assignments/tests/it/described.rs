//! A task without Rust: `[task]` in `exercise.toml`, and `reference.cu`.

use std::fs;

use assignments::exercise::Exercise;
use assignments::grade::Grader;
use common::Device;
use common::testing::planted::compiler;

/// Sums in f32 against a reference in f64, and integers that are added to what stands there.
#[test]
fn a_described_task_tells_a_right_kernel_from_one_that_is_wrong_at_ragged_sizes() {
    const NAME: &str = "a_described_task_tells_a_right_kernel_from_one_that_is_wrong_at_ragged_sizes";
    if !compiler(&Device::sim(), NAME) {
        return;
    }
    let description = r#"
        id = "sums"
        title = ""
        goal = ""
        page = ""
        kernel = "sums"
        cases = [{ rows = 1, columns = 1 }, { rows = 3, columns = 64 }, { rows = 9, columns = 70 }]
        counts = { rows = 8, columns = 64 }
        points = { correct = 5, clean = 5, budget = 0 }
        hints = []
        [task]
        grid = ["rows / 4", 1]
        block = [4]
        arguments = [
            { input = { shape = ["rows", "columns"], range = [100, 200] } },
            { input = { shape = ["rows"], type = "i32", range = [0, 2] } },
            { output = { shape = ["rows"], tolerance = 0.1 } },
            { output = { shape = [3], type = "i32", before = [5, 5] } },
            { u32 = "rows" },
            { i32 = "columns" },
            { f32 = 0.5 },
        ]
    "#;
    let parameters =
        "const float *x, const int *bins, float *sums, int *counts, unsigned rows, int columns, float factor";
    let reference = format!(
        "extern \"C\" __global__ void reference({}) {{
            for (unsigned row = 0; row < rows; ++row) {{
                double sum = 0.0;
                for (int i = 0; i < columns; ++i) sum += x[row * columns + i];
                sums[row] = factor * sum;
                counts[int(bins[row])] += 1;
            }}
        }}",
        parameters.replace("float *", "double *").replace("int *", "double *")
    );
    let kernel = format!(
        "extern \"C\" __global__ void sums({parameters}) {{
            unsigned row = blockIdx.x * 4 + threadIdx.x;
            if (row >= rows) return;
            float sum = 0.0f;
            for (int i = 0; i < columns; ++i) sum += x[row * columns + i];
            sums[row] = factor * sum;
            atomicAdd(&counts[bins[row]], 1);
        }}"
    );
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("exercise.toml"), description).unwrap();
    fs::write(dir.path().join("reference.cu"), reference).unwrap();
    let exercise = Exercise::read(dir.path()).unwrap();
    let grader = Grader::new(env!("CARGO_BIN_EXE_assignments").into(), None);
    let judge = |old: &str, new: &str| {
        assert!(kernel.contains(old));
        grader.judge(&exercise, &kernel.replace(old, new)).unwrap()
    };
    let right = judge("", "");
    assert!(right.passed(), "{right}");
    for (old, new, at, place) in [
        ("i < columns", "i < columns / 4 * 4", "columns = 70, rows = 9", "at row 0"),
        ("i < columns", "i < columns - (columns % 32 > 1)", "columns = 70, rows = 9", "at row 0"),
        ("row >= rows", "row > rows - 2", "columns = 64, rows = 3", "at row 2 (the last)"),
        ("if (row >= rows)", "if (row >= rows / 4 * 4 && row)", "columns = 64, rows = 3", "at row 1"),
        ("counts[bins[row]], 1", "counts[bins[row]], sum < 0", "columns = 64, rows = 3", "got 5"),
    ] {
        let verdict = judge(old, new);
        let detail = &verdict.parts[0].detail;
        assert!(verdict.parts[0].points == 0 && detail.starts_with(at) && detail.contains(place), "{new}: {verdict}");
    }
}
