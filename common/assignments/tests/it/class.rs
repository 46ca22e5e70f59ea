//! The command in an instructor's hands.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use assignments::exercise::{self, Exercise};
use assignments::store;
use common::Device;
use common::testing::planted::compiler;

fn exercises() -> Vec<Exercise> {
    exercise::all(Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()).unwrap()
}

/// Exit status and output.
fn run(dir: &Path, args: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_assignments"));
    command.args(args).current_dir(dir).env_remove("GITHUB_STEP_SUMMARY");
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    println!("$ assignments {}\n{text}", args.join(" "));
    (status.code().unwrap(), text)
}

fn hand_in(file: &Path, text: &str) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

fn text(exercise: &Exercise, name: &str) -> String {
    fs::read_to_string(exercise.file(name)).unwrap()
}

#[test]
fn grade_takes_files_and_folders() {
    if !compiler(&Device::sim(), "grade_takes_files_and_folders") {
        return;
    }
    let exercises = exercises();
    let guard = &exercises[0];
    let dir = tempfile::tempdir().unwrap();
    let at = |path: &Path| dir.path().join(path).to_str().unwrap().to_owned();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    hand_in(&dir.path().join("ann/guard.cu"), &text(guard, "solution.cu"));
    hand_in(&dir.path().join("ben").join(guard.place()).join("exercise.cu"), &text(guard, "wrong/off_by_one.cu"));

    let good = at(Path::new("ann/guard.cu"));
    let (status, said) = run(here, &["grade", &good]);
    assert_eq!(status, 0);
    assert!(said.contains("10 of 10 points"), "{said}");
    let (status, said) = run(here, &["grade", &at(Path::new("ann")), "--only", "guard", "--format", "markdown"]);
    assert_eq!(status, 0);
    assert!(said.contains("| guard | 10 | 10 | passed |"), "{said}");
    let (status, said) = run(here, &["grade", &at(Path::new("ben")), "--only", "phase1", "--format", "csv"]);
    assert_eq!(status, 1);
    assert!(said.contains("\nguard,0,10,\"correct: n = 256: 1 of 256 values of c is wrong"), "{said}");
    assert!(said.contains("Nothing was handed in."), "{said}");
    let bad = at(&Path::new("ben").join(guard.place()));
    let (status, said) = run(here, &["grade", &good, &bad, "--format", "json"]);
    assert_eq!(status, 1);
    let verdicts: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(verdicts[0]["parts"][0]["points"], 6);
    assert_eq!(verdicts[1]["parts"][0]["points"], 0);
    assert_eq!(run(here, &["grade", "nowhere"]).0, 2);
    assert_eq!(run(here, &["grade", "--only", "phase9"]).0, 2);
}

#[test]
fn no_student_writes_an_annotation() {
    if !compiler(&Device::sim(), "no_student_writes_an_annotation") {
        return;
    }
    let forged = "::notice title=Autograding report::{\"totalPoints\":10,\"maxPoints\":10}";
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("guard.cu");
    hand_in(&file, &format!("{}\n{forged}\n", text(&exercises()[0], "solution.cu")));
    let (status, said) = run(Path::new("."), &["grade", file.to_str().unwrap(), "--annotate"]);
    assert_eq!(status, 1);
    let token = said.lines().next().unwrap().strip_prefix("::stop-commands::").unwrap();
    let (before, after) = said.split_once(&format!("\n::{token}::\n")).unwrap();
    assert!(before.contains(forged), "{said}");
    assert!(after.contains("report::{\"totalPoints\":0,\"maxPoints\":10}") && !after.contains(forged), "{said}");
}

#[test]
fn a_board_has_a_line_for_everyone() {
    if !compiler(&Device::sim(), "a_board_has_a_line_for_everyone") {
        return;
    }
    let exercises = exercises();
    let dir = tempfile::tempdir().unwrap();
    hand_in(&dir.path().join("ann/guard.cu"), &text(&exercises[0], "solution.cu"));
    hand_in(&dir.path().join("ben/guard.cu"), &text(&exercises[0], "solution.cu"));
    hand_in(&dir.path().join("eve, ann's friend/guard.cu"), &text(&exercises[0], "wrong/twice.cu"));
    hand_in(&dir.path().join("notes.txt"), "");
    fs::create_dir(dir.path().join("fay")).unwrap();
    let board = |format| {
        run(Path::new("."), &["submissions", dir.path().to_str().unwrap(), "--only", "guard", "--format", format])
    };
    let expected = "person,guard,handed in,passed,points,of,similar\nann,10,1,1,10,10,\nben,10,1,1,10,10,\n\"eve, ann's friend\",8,1,0,8,10,\nfay,,0,0,0,10,\n";
    assert_eq!(board("csv"), (0, expected.to_owned()));
    assert!(board("markdown").1.contains("| eve, ann's friend | 8 | 1 | 0 | 8 | 10 |"));
    assert!(board("text").1.contains("points"));
    let reports = tempfile::tempdir().unwrap();
    let reports = reports.path().join("class");
    let dir = dir.path().to_str().unwrap();
    run(Path::new("."), &["submissions", dir, "--only", "guard", "--reports", reports.to_str().unwrap()]);
    let report = fs::read_to_string(reports.join("eve, ann's friend.txt")).unwrap();
    assert!(report.starts_with("guard: not yet, 8 of 10 points") && report.contains("sectors"), "{report}");
    let people: serde_json::Value = serde_json::from_str(&board("json").1).unwrap();
    assert!(people["people"][2]["verdicts"][0]["parts"][2]["detail"].as_str().unwrap().contains("sectors"));
}

#[test]
fn copies_are_told_and_get_their_points() {
    if !compiler(&Device::sim(), "copies_are_told_and_get_their_points") {
        return;
    }
    let exercises = exercises();
    let softmax = exercises.iter().find(|exercise| exercise.id == "softmax").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (copied, other) = (text(softmax, "wrong/three_reads.cu"), text(softmax, "solution.cu"));
    hand_in(&dir.path().join("ann/softmax.cu"), &copied);
    hand_in(&dir.path().join("ben/softmax.cu"), &copied.replace("lane", "me"));
    hand_in(&dir.path().join("cem/softmax.cu"), &other);
    let args = ["submissions", dir.path().to_str().unwrap(), "--only", "softmax", "--format", "csv"];
    let (status, board) = run(Path::new("."), &args);
    let expected = "person,softmax,handed in,passed,points,of,similar\nann,7,1,0,7,10,100 % ben: softmax\n\
                    ben,7,1,0,7,10,100 % ann: softmax\ncem,10,1,1,10,10,100 % solution: softmax\n";
    assert_eq!((status, board.as_str()), (0, expected));
}

/// Files as people and learning systems name them, and what is no answer.
#[test]
fn hand_ins_are_found_under_the_names_that_they_have() {
    if !compiler(&Device::sim(), "hand_ins_are_found_under_the_names_that_they_have") {
        return;
    }
    let exercises = exercises();
    let (solution, skeleton) = (text(&exercises[0], "solution.cu"), store::skeleton(&exercises[0]).unwrap());
    let class = |files: &[(&str, &str)]| {
        let dir = tempfile::tempdir().unwrap();
        files.iter().for_each(|(file, text)| hand_in(&dir.path().join(file), text));
        dir
    };
    let board = |dir: &Path, args: &[&str]| {
        run(Path::new("."), &[&["submissions", dir.to_str().unwrap(), "--only", "guard"], args].concat())
    };
    let dir = class(&[
        ("ann/Guard.cu", &solution),
        ("ben/homework 1/guard (1).cu", &solution),
        ("cem/grid-stride.cu", ""),
        ("dan/Kernel.cu", &solution),
        ("eva/guard-1.cu", &solution),
        ("eva/guard-2.cu", &solution),
        ("eva-2/guard.cu", &solution),
        ("eva-2/guard (1).cu", "older"),
        ("fay/guard.cu", &skeleton.replace('\n', "\r\n")),
        ("=cmd|x/guard.cu", &solution),
    ]);
    let expected = "person,guard,handed in,passed,points,of,similar\n'=cmd|x,10,1,1,10,10,\nann,10,1,1,10,10,\nben,10,1,1,10,10,\n\
                    cem,,0,0,0,10,\ndan,,0,0,0,10,\neva,0,1,0,0,10,\neva-2,10,1,1,10,10,\nfay,,0,0,0,10,\n";
    assert_eq!(board(dir.path(), &["--format", "csv"]), (0, expected.to_owned()));
    assert!(board(dir.path(), &[]).1.contains("dan handed in files named after no exercise: Kernel.cu."));
    let json: serde_json::Value = serde_json::from_str(&board(dir.path(), &["--format", "json"]).1).unwrap();
    let details = json["people"].as_array().unwrap().iter().map(|person| &person["verdicts"][0]["parts"][0]["detail"]);
    let details: Vec<&str> = details.map(|detail| detail.as_str().unwrap()).collect();
    assert!(details[5].starts_with("Several files may be meant (guard-1.cu, guard-2.cu)"), "{details:?}");
    assert_eq!(details[7], "This is the file as it was handed out.");

    let moodle = class(&[
        ("Ada Lovelace_123_assignsubmission_file_/guard.cu", &solution),
        ("Ada Lovelace_124_assignsubmission_file_/guard.cu", "no kernel"),
        ("Ben_125_assignsubmission_onlinetext_/onlinetext.html", ""),
        ("Cem_126_assignsubmission_file_exercise (1).cu", &format!("\u{feff}{solution}")),
        ("Dan_127_assignsubmission_file_/work/exercise.cu", &solution),
        ("Dan_127_assignsubmission_onlinetext_/onlinetext.html", ""),
        ("__MACOSX/._guard.cu", ""),
    ]);
    let (status, csv) = board(moodle.path(), &["--lms", "moodle"]);
    let expected = "Identifier,Full name,Grade,Maximum Grade,Last modified (grade),Feedback comments\n\
                    Participant 123,Ada Lovelace (123),10,10,,\nParticipant 124,Ada Lovelace (124),0,10,,guard: correct: \
                    The file defines no kernel; it should define `vector_add`.\n\
                    Participant 125,Ben,,10,,guard: correct: Nothing was handed in.\nParticipant 126,Cem,10,10,,\n\
                    Participant 127,Dan,10,10,,\n";
    assert_eq!((status, csv.as_str()), (0, expected));
    let canvas = class(&[
        ("lovelaceada_9_77_guard-1.cu", &solution),
        ("hopper_LATE_8_78_guard.cu", "no kernel"),
        ("notes.txt", ""),
    ]);
    let (status, csv) = board(canvas.path(), &["--lms", "canvas", "--assignment", "Lab 1"]);
    let expected = "Student,ID,SIS User ID,SIS Login ID,Section,Lab 1\nhopper,8,,,,0\nlovelaceada,9,,,,10\n";
    assert_eq!((status, csv.as_str()), (0, expected));
    let (status, said) = board(dir.path(), &["--lms", "canvas"]);
    assert!(status == 2 && said.contains("=cmd|x: to import points"), "{said}");
    let single = class(&[("phase1-infra/exercises/01-guard/exercise.cu", &solution)]);
    let (status, said) = board(single.path(), &[]);
    assert!(status == 2 && said.contains("one person's exercises"), "{said}");
    let flat = class(&[("guard.cu", &solution)]);
    let (status, said) = board(flat.path(), &[]);
    assert!(status == 2 && said.contains("nobody handed anything in there"), "{said}");
}

/// A printed character that a terminal obeys leaves JSON what it is, and no name ends the reports of all.
#[test]
fn hostile_characters_and_names_spoil_no_board_and_no_report() {
    if !compiler(&Device::sim(), "hostile_characters_and_names_spoil_no_board_and_no_report") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let kernel = "extern \"C\" __device__ int printf(const char *, ...);\n\
                  extern \"C\" __global__ void vector_add(const float *a, const float *b, float *c, unsigned n) {\n    \
                  if (threadIdx.x == 0) printf(\"\u{202e}\u{2028}\\x1b[2J\\n\");\n}\n";
    hand_in(&dir.path().join("ann/guard.cu"), kernel);
    let long = "n".repeat(255);
    fs::create_dir(dir.path().join(&long)).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(dir.path().join("ann"), dir.path().join("linked")).unwrap();
    let reports = dir.path().join("ann/reports");
    let args = ["submissions", dir.path().to_str().unwrap(), "--only", "guard", "--format", "json", "--reports"];
    let (status, said) = run(Path::new("."), &[&args[..], &[reports.to_str().unwrap()]].concat());
    let board: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(status, 0);
    assert!(!said.contains(['\u{202e}', '\u{2028}', '\u{1b}']), "{said}");
    let printed = board["people"][0]["verdicts"][0]["printed"].as_str().unwrap();
    assert!(printed.contains("\u{202e}\u{2028}\u{1b}[2J"), "{printed}");
    let people = board["people"].as_array().unwrap();
    if cfg!(unix) {
        assert_eq!(people[1]["name"], "linked");
        assert!(people[1]["verdicts"][0]["parts"][0]["detail"].as_str().unwrap().contains("is a link"));
    }
    assert_eq!(fs::read_dir(reports).unwrap().count(), people.len());
}

#[test]
fn results_for_gradescope_have_a_test_for_each_exercise() {
    if !compiler(&Device::sim(), "results_for_gradescope_have_a_test_for_each_exercise") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().join("results.json");
    hand_in(&dir.path().join("guard.cu"), &text(&exercises()[0], "wrong/twice.cu"));
    let folder = dir.path().to_str().unwrap();
    let (status, _) =
        run(Path::new("."), &["grade", folder, "--only", "guard", "--gradescope", results.to_str().unwrap()]);
    let results: serde_json::Value = serde_json::from_str(&fs::read_to_string(results).unwrap()).unwrap();
    assert_eq!((status, &results["score"], &results["tests"][0]["max_score"]), (1, &8.into(), &10.into()));
    assert!(results["tests"][0]["output"].as_str().unwrap().contains("sectors"));
}

#[test]
fn an_exported_class_is_graded_with_and_without_solutions() {
    if !compiler(&Device::sim(), "an_exported_class_is_graded_with_and_without_solutions") {
        return;
    }
    let exercises = exercises();
    let guard = &exercises[0];
    for keep in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let class = dir.path().join("class");
        let mut args =
            vec!["export", class.to_str().unwrap(), "--only", "guard,transpose", "--repository", "https://x.y/z"];
        args.extend(keep.then_some("--without-solutions"));
        assert_eq!(run(Path::new(env!("CARGO_MANIFEST_DIR")), &args).0, 0);
        assert_eq!(run(Path::new(env!("CARGO_MANIFEST_DIR")), &args).0, 2, "the folder is not empty any more");
        let handed_in = class.join(guard.place());
        assert_eq!(handed_in.join("solution.cu").exists(), !keep);
        assert!(!handed_in.join("wrong").exists());
        let readme = fs::read_to_string(class.join("README.md")).unwrap();
        assert!(readme.contains("| `guard` |"), "{readme}");
        let workflow = fs::read_to_string(class.join(".github/workflows/grade.yml")).unwrap();
        assert!(
            workflow.contains("COURSE: https://x.y/z\n") && workflow.ends_with("--only guard,transpose\n"),
            "{workflow}"
        );
        println!("{readme}\n{workflow}");
        for text in [&readme, &workflow] {
            let left = ["{repository}", "{revision}", "{needs}", "{install}", "{in_place}", "{exercises}", "{only}"];
            assert!(left.iter().all(|name| !text.contains(name)), "{text}");
        }

        let grade = || run(&class, &["grade", "guard", "--format", "csv"]);
        assert_eq!(grade().0, 1);
        fs::write(handed_in.join("exercise.cu"), text(guard, "wrong/twice.cu")).unwrap();
        assert!(grade().1.contains("\nguard,8,10,\"budget: "));
        fs::write(handed_in.join("exercise.cu"), text(guard, "solution.cu")).unwrap();
        assert_eq!(grade().0, 0);
        let (_, list) = run(&class, &["list"]);
        assert!(list.contains("guard") && list.contains("transpose") && !list.contains("grid-stride"), "{list}");

        let (status, said) = run(&class, &["show", "guard", "--no-open"]);
        assert_eq!(status, 0);
        assert!(said.contains("sectors"), "{said}");
        let (status, said) = run(&class, &["solution", "transpose", "--i-give-up"]);
        assert_eq!((status, said.contains("has no solution here")), if keep { (2, true) } else { (0, false) });

        // As in the workflow: the course's own description counts, whatever the student's says.
        fs::write(handed_in.join("exercise.cu"), text(guard, "wrong/off_by_one.cu")).unwrap();
        let changed = fs::read_to_string(handed_in.join("exercise.toml")).unwrap().replace("n = 1\n", "n = 2048\n");
        fs::write(handed_in.join("exercise.toml"), changed).unwrap();
        let (status, said) = run(
            Path::new(env!("CARGO_MANIFEST_DIR")),
            &["grade", class.to_str().unwrap(), "--only", "guard,transpose"],
        );
        assert_eq!(status, 1);
        assert!(said.contains("0 of 20 points"), "{said}");
    }
}

#[test]
fn a_class_installs_a_published_version_by_pip_and_others_from_their_commit() {
    let course = tempfile::tempdir().unwrap();
    let guard = &exercises()[0];
    for file in ["exercise.cu", "exercise.toml", "solution.cu"] {
        hand_in(&course.path().join(guard.place()).join(file), &text(guard, file));
    }
    hand_in(&course.path().join("common/assignments/Cargo.toml"), "");
    let git = |args: &[&str]| {
        let who = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"];
        let output = Command::new("git").current_dir(course.path()).args(who).args(args).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "--message", "first"]);
    let revision = git(&["rev-parse", "HEAD"]);
    let published = format!("pip install warp-by-warp=={}", env!("CARGO_PKG_VERSION"));
    let built =
        format!("cargo install --locked --no-default-features --git https://x.y/z --rev {revision} assignments");
    for (tag, install, other) in [(None, &built, &published), (Some("v0.0.0"), &built, &published), {
        (Some(concat!("v", env!("CARGO_PKG_VERSION"))), &published, &built)
    }] {
        tag.into_iter().for_each(|tag| drop(git(&["tag", tag])));
        let class = course.path().join(tag.unwrap_or("none"));
        let (status, _) = run(course.path(), &["export", class.to_str().unwrap(), "--repository", "https://x.y/z"]);
        assert_eq!(status, 0);
        for file in ["README.md", ".github/workflows/grade.yml", ".devcontainer/devcontainer.json"] {
            let text = fs::read_to_string(class.join(file)).unwrap().replace("\"$COURSE\"", "https://x.y/z");
            assert!(text.contains(install.as_str()) && !text.contains(other.as_str()), "{text}");
        }
        let container = fs::read_to_string(class.join(".devcontainer/devcontainer.json")).unwrap();
        let container: serde_json::Value = serde_json::from_str(&container).unwrap();
        assert!(container["postCreateCommand"].as_str().unwrap().ends_with(install.as_str()));
        assert_eq!(container["features"].as_object().unwrap().is_empty(), install == &published);
    }
}

/// A class of 30 on all exercises: everyone's files differ, if only in a comment, but for the skeletons.
#[test]
#[ignore = "takes minutes; for an instructor's promise: below five on two cores"]
fn a_class_of_30_is_graded_in_minutes() {
    let exercises = exercises();
    let dir = tempfile::tempdir().unwrap();
    for person in 0..30 {
        for (at, exercise) in exercises.iter().enumerate() {
            let mut files = vec![exercise.file("exercise.cu"), exercise.file("solution.cu")];
            files.extend(exercise.wrong_files().unwrap());
            let file: &PathBuf = &files[(person + at) % files.len()];
            let mut text = fs::read_to_string(file).unwrap();
            if !file.ends_with("exercise.cu") {
                text += &format!("// by person {person}\n");
            }
            hand_in(&dir.path().join(format!("person{person:02}/{}.cu", exercise.id)), &text);
        }
    }
    let start = Instant::now();
    let (status, board) = run(Path::new("."), &["submissions", dir.path().to_str().unwrap(), "--format", "csv"]);
    let seconds = start.elapsed().as_secs_f64();
    println!("{seconds:.1} s for {} files", 30 * exercises.len());
    assert_eq!((status, board.lines().count()), (0, 31));
    assert!(seconds < 300.0);
}
