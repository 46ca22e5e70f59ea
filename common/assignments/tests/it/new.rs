//! Exercises that an instructor writes, without a line of Rust, in a folder that is no checkout.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use assignments::exercise::Exercise;
use common::Device;
use common::testing::planted::compiler;
use tempfile::TempDir;

/// Exit status and output.
fn run(dir: &Path, args: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_assignments"));
    command.args(args).current_dir(dir).env_remove("WARP_DEVICE").env("GIT_CEILING_DIRECTORIES", std::env::temp_dir());
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    println!("$ assignments {}\n{text}", args.join(" "));
    (status.code().unwrap(), text)
}

/// Path of an exercise, with this system's separators.
fn place(folder: &str) -> PathBuf {
    ["phase9-own", "exercises", folder].iter().collect()
}

/// A folder in which `new row-scale` has run, and the exercise's own.
fn written() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(run(dir.path(), &["new", "row-scale"]).0, 0);
    let exercise = dir.path().join(place("01-row-scale"));
    (dir, exercise)
}

fn replace(file: &Path, old: &str, new: &str) {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(old), "{old}");
    fs::write(file, text.replace(old, new)).unwrap();
}

#[test]
fn what_new_writes_is_an_exercise_as_it_should_be() {
    if !compiler(&Device::sim(), "what_new_writes_is_an_exercise_as_it_should_be") {
        return;
    }
    let (dir, exercise) = written();
    let folder = exercise.to_str().unwrap();
    let author = || run(dir.path(), &["author", folder]);
    let (status, said) = author();
    assert_eq!((status, said.matches(": as it should be\n").count()), (0, 6), "{said}");
    assert!(said.contains("\nStill as `new` wrote it: title, goal, hints, exercise.cu, reference.cu, "), "{said}");
    replace(&exercise.join("exercise.toml"), "title = \"Multiply", "title = \"Scale");
    replace(&exercise.join("exercise.cu"), "Your code", "Your turn");
    assert!(author().1.contains("\nStill as `new` wrote it: goal, hints, reference.cu, "));
    replace(&exercise.join("wrong/no_guard.cu"), "    y[row", "    if (row < rows && column < columns) y[row");
    assert_eq!(author().0, 1);
    let (status, said) = run(dir.path(), &["author", folder, "--mutants"]);
    assert!(status == 0 && said.contains(" 0 open\n"), "{said}");
}

#[test]
fn a_new_name_is_plain_and_not_taken() {
    let (dir, exercise) = written();
    let new = |args: &[&str]| run(dir.path(), &[&["new"], args].concat());
    for (args, why) in [
        (&["row-scale"][..], "there is `row-scale` already"),
        (&["phase9"], "there is `phase9` already"),
        (&["Row"], "`Row` should be lower-case words"),
        (&["../x"], "`../x` should be"),
        (&["a--b"], "`a--b` should be"),
        (&["x", "--in", "../phase1"], "`../phase1` should be called as phase2-conv-bn"),
        (&["x", "--in", "mine"], "`mine` should be called as phase2-conv-bn"),
    ] {
        let (status, said) = new(args);
        assert!(status == 2 && said.contains(why), "{said}");
    }
    let later = dir.path().join(place("17-later"));
    fs::create_dir(&later).unwrap();
    for file in ["exercise.toml", "reference.cu"] {
        fs::copy(exercise.join(file), later.join(file)).unwrap();
    }
    replace(&later.join("exercise.toml"), "\"row-scale\"", "\"later\"");
    assert!(new(&["latest"]).1.starts_with(&place("18-latest").display().to_string()));
    assert!(new(&["first", "--in", "phase7-mine"]).1.contains("01-first"));
}

#[test]
fn a_wrong_reference_is_its_authors_fault() {
    if !compiler(&Device::sim(), "a_wrong_reference_is_its_authors_fault") {
        return;
    }
    let (dir, exercise) = written();
    let file = exercise.join("reference.cu");
    let good = fs::read_to_string(&file).unwrap();
    for (old, new, why) in [
        ("row < rows", "row < row_count", "reference.cu(4): error: identifier \"row_count\" is undefined"),
        ("column = 0", "column = 1", "it leaves no number in element 0 of argument 2"),
        ("++column", "column += 0", "more than 30000000 warp instructions were executed"),
        ("row < rows", "row <= rows", "reference.cu:6:13"),
        ("= factors[row] *", "= y[row + 1] *", "out-of-bounds read"),
        ("const double *x", "const float *x", "`const float *x`: arrays are `double *` there"),
        ("reference(", "references(", "has no kernel `reference`; it has `references`"),
        (", unsigned columns) {", ") {\n    unsigned columns = rows;", "5 arguments given for 4 parameters"),
    ] {
        assert!(good.contains(old), "{old}");
        fs::write(&file, good.replace(old, new)).unwrap();
        let (status, said) = run(dir.path(), &["check", "row-scale"]);
        // The temporary folder may have another name, too.
        let file = place("01-row-scale").join("reference.cu");
        let blamed = format!("{}, which gives the expected values, is at fault: ", file.display());
        assert!(status == 2 && said.contains(&blamed) && said.contains(why), "{new}: {said}");
    }
    fs::remove_file(&file).unwrap();
    let (status, said) = run(dir.path(), &["list"]);
    assert!(status == 2 && said.contains("reference.cu cannot be read"), "{said}");
}

/// No term is worked out, and no memory taken, before it is known to make sense.
#[test]
fn a_description_that_makes_no_sense_is_refused_with_a_sentence() {
    let (_dir, exercise) = written();
    let file = exercise.join("exercise.toml");
    let good = fs::read_to_string(&file).unwrap();
    for (old, new, why) in [
        ("\"rows / 8\"", "\"row / 8\"", "case 1: `grid`: `row` in `row / 8` is no number and no size"),
        ("\"rows / 8\"", "\"rows / 0\"", "case 1: `grid`: `rows / 0` cannot be divided"),
        ("\"rows / 8\"", "\"rows - 2\"", "case 1: `grid`: `rows - 2` is below 0 or too large"),
        ("\"rows / 8\"", "\"rows - 1\"", "case 1: `grid`: `rows - 1` is 0"),
        ("\"rows / 8\"", "\"rows * 99999999999\"", "case 1: `grid`: more than u32 holds"),
        ("\"rows / 8\"", "-1", "expected a number, or a term of the case's sizes as \"rows / 4\""),
        ("\"rows / 8\"", "1, 1, 1", "`grid`: one to three numbers are expected, and there are 4"),
        ("block = [32, 8]", "block = []", "`block`: one to three numbers are expected, and there are 0"),
        ("block = [32, 8]", "block = [33, 32]", "`block`: 1056 threads; at most 1024 are possible"),
        ("rows = 19,", "rows = 190000000,", "case 4: the arrays have 1330000000 elements; at most 16777216"),
        ("rows = 32,", "rows = 9223372036854775807,", "`counts`: `grid`: more than u32 holds"),
        (
            "points =",
            "bench = { rows = 1 }\npoints =",
            "`bench`: `grid`: `columns` in `columns / 32` is no number and no size",
        ),
        ("rows = 19,", "rows = 0,", "case 4: `grid`: `rows / 8` is 0"),
        ("rows = 19,", "rows = -1,", "expected usize"),
        (
            "[\"rows\"] }",
            "[\"rows\"], range = [1, 0] }",
            "argument 1: a range is two numbers, and the first is not above the other",
        ),
        ("[\"rows\"] }", "[\"rows\"], range = [0, 1e99] }", "argument 1: a range is two numbers"),
        ("[\"rows\"] }", "[\"rows\"], range = [nan, nan] }", "argument 1: a range is two numbers"),
        ("[\"rows\"] }", "[\"rows\"], type = \"i32\" }", "argument 1: inputs of i32 need a `range`"),
        ("[\"rows\"] }", "[\"rows\"], type = \"f64\" }", "unknown variant `f64`, expected one of `f32`, `f16`"),
        (
            "[\"rows\"] }",
            "[\"rows\"], values = 1 }",
            "unexpected keys in table: values, available keys: shape, type, range",
        ),
        ("tolerance = 0.0", "tolerance = -1.0", "argument 2: `tolerance` is a number from 0 on"),
        ("tolerance = 0.0", "tolerance = nan", "argument 2: `tolerance` is a number from 0 on"),
        (
            "{ output = { shape = [\"rows\", \"columns\"], tolerance = 0.0 } }",
            "{ u32 = 1 }",
            "no argument is an output",
        ),
        ("{ u32 = \"rows\" }", "{ f32 = nan }", "argument 3: an f32 is finite"),
        ("{ u32 = \"rows\" }", "{ u32 = \"rows * 4294967296\" }", "argument 3: more than u32 holds"),
        (
            "{ u32 = \"rows\" }",
            "{ unsigned = \"rows\" }",
            "unknown variant `unsigned`, expected one of `input`, `output`, `u32`",
        ),
        ("[task]", "[task]\nshared = 4", "unknown field `shared`, expected one of `grid`, `block`, `arguments`"),
        ("kernel =", "task = \"no_such\"\nkernel =", "duplicate key"),
    ] {
        assert!(good.contains(old), "{old}");
        fs::write(&file, good.replace(old, new)).unwrap();
        let said = format!("{:#}", Exercise::read(&exercise).err().unwrap());
        println!("{new}: {said}\n");
        assert!(said.starts_with(&file.display().to_string()) && said.contains(why), "{new}: {said}");
    }
}

#[test]
fn a_class_without_solutions_is_graded_by_the_reference() {
    if !compiler(&Device::sim(), "a_class_without_solutions_is_graded_by_the_reference") {
        return;
    }
    let (dir, exercise) = written();
    let class = dir.path().join("class/ann");
    assert_eq!(run(dir.path(), &["export", class.to_str().unwrap(), "--without-solutions"]).0, 0);
    let workflow = fs::read_to_string(class.join(".github/workflows/grade.yml")).unwrap();
    let install = concat!(" pip install warp-by-warp==", env!("CARGO_PKG_VERSION"), "\n");
    assert!(workflow.contains(install) && !workflow.contains("cargo install"), "{workflow}");
    let handed_out = class.join("phase9-own/exercises/01-row-scale");
    let mut files: Vec<_> = fs::read_dir(&handed_out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, ["exercise.cu", "exercise.toml", "reference.cu"]);
    let hand_in = |file: &str| fs::copy(exercise.join(file), handed_out.join("exercise.cu")).unwrap();
    for (file, status, points) in [("solution.cu", 0, "10 of 10"), ("wrong/by_columns.cu", 1, "7 of 10")] {
        hand_in(file);
        let (found, said) = run(&class, &["grade"]);
        assert!(found == status && said.contains(points), "{said}");
    }
    // The instructor's description and reference count, whatever the student's say.
    hand_in("wrong/factor_of_column.cu");
    replace(&handed_out.join("reference.cu"), "factors[row]", "factors[column % rows]");
    assert_eq!(run(&class, &["check", "row-scale"]).1.matches("+ correct").count(), 1);
    let board = run(dir.path(), &["submissions", dir.path().join("class").to_str().unwrap(), "--format", "csv"]);
    assert_eq!(board, (0, "person,row-scale,handed in,passed,points,of,similar\nann,0,1,0,0,10,\n".to_owned()));
}
