//! `cargo run -p phase4-fusion`. The gallery's own command is tested in `broken.rs`.

use assert_cmd::Command;
use bench::ladder::columns;
use bench::record::Record;
use bench::table::{Cell, Table, WIDTH};
use phase4_fusion::report::PARTS;
use phase4_fusion::{attention, conv, gemm};

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("phase4-fusion"));
    command.env_remove("WARP_DEVICE").args(args);
    command
}

/// The tables of a run, from its machine-readable output.
fn tables(args: &[&str]) -> Vec<Table> {
    let output = command(&[&["--device", "sim", "--format", "json"], args].concat()).assert().success();
    serde_json::from_slice(&output.get_output().stdout).unwrap()
}

fn stderr(args: &[&str], code: i32) -> String {
    let run = command(args).assert().code(code);
    assert!(run.get_output().stdout.is_empty(), "{args:?}");
    String::from_utf8(run.get_output().stderr.clone()).unwrap()
}

#[test]
fn every_step_of_every_part_is_checked() {
    let tables = tables(&[]);
    let names: Vec<_> = PARTS.iter().filter(|part| part.by_default).flat_map(|part| part.tables).collect();
    assert_eq!(tables.len(), names.len());
    let (mut checked, mut not_taken) = (0, Vec::new());
    for table in &tables {
        assert!(table.to_text().lines().all(|line| line.chars().count() <= WIDTH), "{}", table.to_text());
        let Ok(check) = table.column(columns::CHECK) else { continue };
        for row in table.rows() {
            match &row[check] {
                Cell::Text(word) if word == "reference" => {
                    assert_eq!(row[0], "whole image".into(), "{}", table.to_text())
                }
                Cell::Text(word) => assert_eq!(word, "ok", "{}", table.to_text()),
                _ => not_taken.push((table.title.clone(), row[..2].to_vec())),
            }
            checked += 1;
        }
    }
    // Two types of 16 bits for each step of the products; the last step's others, and three layers in each type of convolution; three
    // attentions.
    let of_conv = 3 * conv::PRECISIONS.len() * conv::LADDER.len();
    assert!(checked >= 2 * gemm::LADDER.len() + gemm::OTHERS.len() + of_conv + 3 * attention::LADDER.len());
    // The step for few channels takes the layer that has few, and the others those that have many; in both types.
    let as_expected =
        |(_, row): &(String, Vec<Cell>)| (row[1] == "4 few channels".into()) != (row[0] == "3→64 7/2 @24 ×1".into());
    let (of_other_kind, not_taken): (Vec<_>, Vec<_>) = not_taken.into_iter().partition(as_expected);
    assert_eq!(of_other_kind.len(), 6 * conv::PRECISIONS.len(), "{of_other_kind:?}");
    // One step along K is too few for slices; in tf32 it is two.
    let pointwise = ("convolutions in f16, channels last, on sim", ["64→72 1/2 @9 ×1", "3 slices of K"]);
    // Tokens of 40 bytes do not begin at multiples of 16 bytes.
    let narrow = ("attention on sim", ["1×2×128, 40", "9 e4m3"]);
    assert_eq!(not_taken, [pointwise, narrow].map(|(title, row)| (title.to_owned(), row.map(Cell::from).to_vec())));
}

#[test]
fn a_part_is_run_by_name_and_saved() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.json");
    let run = command(&["conv", "--device", "sim", "--save", path.to_str().unwrap()]).assert().success();
    let said = String::from_utf8_lossy(&run.get_output().stderr).into_owned();
    assert!(said.contains("saved: "), "{said}");
    let record = Record::open(&path).unwrap();
    let names: Vec<&str> = record.tables.iter().map(|named| named.name.as_str()).collect();
    assert!(record.simulated);
    assert_eq!(names, ["tensor-conv-steps", "tensor-conv-f16", "tensor-conv-tf32", "tensor-conv-tiles"]);
    // What is chosen for an H200: many pixels, few channels; then one image of 7 × 7, cut along K.
    let tiles = record.table("tensor-conv-tiles").unwrap();
    let chosen = |layer: &str| {
        let row = tiles.rows().iter().find(|row| row[0] == layer.into()).unwrap();
        row[1..].to_vec()
    };
    assert_eq!(chosen("64→64 3 @56")[1], "256×64".into());
    assert_eq!(chosen("512→512 3 @7")[0], "64×64/8".into());
}

/// A missing folder is refused before anything runs.
#[test]
fn a_place_that_cannot_be_written_to_is_refused_at_once() {
    let said = stderr(&["gemm", "--device", "sim", "--save", "no/such/folder/run.json"], 1);
    assert!(said.contains("error: ") && said.contains("run.json"), "{said}");
}

#[test]
fn a_wrong_command_line_is_refused_with_what_there_is() {
    let said = stderr(&["fusion"], 2);
    for part in PARTS {
        assert!(said.contains(part.name), "{}: {said}", part.name);
    }
    assert!(stderr(&["--device", "gpu"], 2).contains("no such device: `gpu`"));
    assert!(stderr(&["gemm", "broken"], 2).contains("invalid value 'broken'"));
    assert!(stderr(&["--save", "run.json", "broken"], 2).contains("parts and --save do not go before a command"));
}

#[test]
fn the_help_names_every_part_and_what_is_left_out_by_default() {
    let run = command(&["--help"]).assert().success();
    let help = String::from_utf8(run.get_output().stdout.clone()).unwrap();
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains(
            "Parts to run [default: all but links, formats, values, all-reduce, resources, occupancy and sass]"
        ),
        "{help}"
    );
    for part in PARTS {
        assert!(words.contains(&format!("- {}: {}", part.name, part.about)), "{}: {help}", part.name);
    }
}

/// Like `| head -0`: the reader has left before the first table.
#[test]
fn a_plan_is_explained_and_photos_that_are_none_are_refused() {
    let [table] = &tables(&["resnet18", "--explain", "--size", "64", "--precision", "tf32"])[..] else { panic!() };
    assert_eq!(table.rows().len(), 24);
    let text = table.to_text();
    assert!(text.contains("ResNet18 in tf32, 1 × 64×64, on sim") && text.contains("few channels"), "{text}");
    assert!(
        stderr(&["classify", "no/such/photo.png", "--precision", "f16", "--device", "sim"], 1)
            .contains("photo.png as a photo")
    );
    assert!(stderr(&["evaluate", "folder", "--precision", "f8"], 2).contains("f32, tf32, f16, int8"));
    let said = stderr(&["precision", "--error-budget", "0"], 2);
    assert!(said.contains("an error budget is a number above 0 and up to 1, such as 1e-3"), "{said}");
    assert!(stderr(&["autoencoder", "--precision", "int8", "--device", "sim"], 1).contains("which ResNet18 alone has"));
}

#[test]
fn each_layer_has_a_format_within_the_budget() {
    let [layers, launches] = &tables(&["precision", "--explain", "--error-budget", "5e-4"])[..] else { panic!() };
    let text = layers.to_text();
    assert_eq!(layers.rows().len(), 23);
    assert!(text.contains("layers of digits within 5e-4 on sim") && text.contains("over budget"), "{text}");
    let format = launches.column("format").unwrap();
    let of = |name: &str| launches.rows().iter().filter(|row| row[format] == name.into()).count();
    assert!(of("f16") > 5 && of("f16") < launches.rows().len(), "{}", launches.to_text());
    for table in [layers, launches] {
        assert!(table.to_text().lines().all(|line| line.chars().count() <= WIDTH), "{}", table.to_text());
    }
}

#[test]
fn the_autoencoder_is_explained_and_run_and_gives_a_sound_back() {
    let explained = |config| tables(&["autoencoder", "--explain", "--config", config, "--precision", "tf32"]).remove(0);
    assert!(explained("original").to_text().contains("all weights fit into a block's shared memory"));
    let medium = explained("medium").to_text();
    assert!(medium.contains("Linear 128→256 GELU") && medium.contains("Not one launch: "), "{medium}");
    let [pass] = &tables(&["autoencoder", "--config", "medium", "--batch", "2"])[..] else { panic!() };
    assert_eq!(pass.rows().len(), 1);
    let dir = tempfile::tempdir().unwrap();
    let (sound, plots) = (dir.path().join("tone.wav"), dir.path().join("plots"));
    std::fs::write(&sound, tone(16_000)).unwrap();
    let reconstruct = ["reconstruct", sound.to_str().unwrap(), "--plots", plots.to_str().unwrap()];
    let scores = |more: &[&str]| tables(&[&reconstruct[..], more].concat()).remove(0);
    let (one_kernel, planned) = (scores(&[]), scores(&["--config", "medium", "--precision", "tf32"]));
    assert!(one_kernel.rows().len() >= 25 && planned.rows().len() >= 20, "{}", one_kernel.to_text());
    assert!(plots.join("tone.svg").is_file());
    assert!(stderr(&["reconstruct", "none.wav", "--device", "sim"], 1).contains("none.wav"));
}

/// A WAV file with this many samples of a tone, 16 bits each, at 16 kHz.
fn tone(samples: u32) -> Vec<u8> {
    let bytes = 2 * samples;
    let mut file = Vec::new();
    file.extend(b"RIFF");
    file.extend((36 + bytes).to_le_bytes());
    file.extend(b"WAVEfmt ");
    file.extend(16u32.to_le_bytes());
    // PCM, one channel.
    file.extend([1, 0, 1, 0]);
    file.extend(16_000u32.to_le_bytes());
    file.extend(32_000u32.to_le_bytes());
    file.extend([2, 0, 16, 0]);
    file.extend(b"data");
    file.extend(bytes.to_le_bytes());
    file.extend((0..samples).flat_map(|n| ((9000.0 * (0.2 * f64::from(n)).sin()) as i16).to_le_bytes()));
    file
}

#[test]
fn a_run_is_saved_though_nobody_reads_what_it_prints() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.json");
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("phase4-fusion"));
    command.args(["conv", "--device", "sim", "--save"]).arg(&path).stdout(std::io::pipe().unwrap().1);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(Record::open(&path).unwrap().table("tensor-conv-f16").is_some());
}
