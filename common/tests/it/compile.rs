//! From the `.cu` to the device: times of compilation, the effect of an edit, and the errors for mistakes.

use std::fs;

use common::compile::{Origin, compiler_name, ship};
use common::prelude::*;
use common::{device_test, probe};
use half::f16;

const SCALE_ADD: KernelSource = kernel_source!("tests/kernels", "scale_add");
const HALF_OFFSET: KernelSource = kernel_source!("tests/kernels", "half_offset");

/// Whether CUDA's own headers are installed, which NVRTC does without.
fn has_headers() -> bool {
    probe::report().iter().any(|component| component.name == "CUDA headers" && component.present)
}

fn has_nvrtc() -> bool {
    probe::Library::Nvrtc.is_present()
}

/// NVRTC, or clang.
fn has_compiler() -> bool {
    compiler_name().is_ok()
}

/// `out = a·x + y` of one element.
fn scale_add(device: &Device, source: &KernelSource, a: f32, x: f32, y: f32) -> Result<f32> {
    let stream = device.stream();
    let kernel = device.kernel(source, "scale_add")?;
    let (x, y) = (stream.clone_htod(&[x])?, stream.clone_htod(&[y])?);
    let mut out = stream.alloc_poisoned::<f32>(1)?;
    // SAFETY: all three buffers hold the single value that n allows.
    unsafe {
        stream
            .launch_builder(&kernel)
            .arg(&x)
            .arg(&y)
            .arg(&mut out)
            .arg(&a)
            .arg(&1u32)
            .launch(LaunchConfig::linear(1, 32))?;
    }
    Ok(stream.clone_dtoh(&out)?[0])
}

device_test! {
    fn an_edited_kernel_runs_without_a_rebuild(device) {
        let crate_dir = tempfile::tempdir().unwrap();
        let kernels = crate_dir.path().join("kernels");
        fs::create_dir(&kernels).unwrap();
        let file = kernels.join("scale_add.cu");
        let source = KernelSource {
            manifest_dir: crate_dir.path().to_string_lossy().into_owned().into(),
            dir: "kernels".into(),
            // As a build with `--release` embeds it.
            ptx: fs::read(ship::shipped_path(&SCALE_ADD.path().unwrap())).ok().map(Into::into),
            ..SCALE_ADD
        };
        // No file there: the embedded text is used.
        assert_eq!(scale_add(&device, &source, 2.0, 3.0, 4.0)?, 10.0);
        // The same text in a file, with git's line endings on Windows: still the embedded PTX's source.
        fs::write(&file, SCALE_ADD.source.replace('\n', "\r\n")).unwrap();
        assert_eq!(scale_add(&device, &source, 2.0, 3.0, 4.0)?, 10.0);
        if device.is_sim() {
            assert_eq!(device.load(&source)?.origin(), &Origin::Shipped);
        }
        // An edit.
        fs::write(&file, SCALE_ADD.source.replace("a * x[i] + y[i]", "a * x[i] - y[i]")).unwrap();
        match scale_add(&device, &source, 2.0, 3.0, 4.0) {
            Ok(out) => {
                assert!(has_compiler());
                assert_eq!(out, 2.0);
            }
            Err(error) => {
                assert!(!has_compiler(), "{error}");
                assert!(matches!(error, Error::CompilerMissing { .. }), "{error}");
                let text = error.to_string();
                assert!(text.contains("the source has changed since its PTX was shipped"), "{text}");
                assert!(text.contains("pip install"), "{text}");
            }
        }
        Ok(())
    }

    fn a_mistake_is_shown_with_file_and_line(device) {
        let source = KernelSource::from_text(
            "broken",
            "extern \"C\" __global__ void broken(float *out) {\n    out[0] = undefined_name;\n}\n",
        );
        let error = device.kernel(&source, "broken").unwrap_err();
        let text = error.to_string();
        if has_compiler() {
            assert!(matches!(error, Error::Compile { .. }), "{text}");
            assert!(text.starts_with("broken.cu does not compile:\n"), "{text}");
            // NVRTC's and clang's.
            let places = ["broken.cu(2): error: ", "broken.cu:2:14: error: "];
            assert!(places.iter().any(|place| text.contains(place)) && text.contains("undefined_name"), "{text}");
        } else {
            assert!(text.contains("no PTX is shipped with it"), "{text}");
        }
        Ok(())
    }

    fn a_missing_header_comes_with_the_command_that_installs_those_of_cuda(device) {
        let text = "#include <cuda_of_tomorrow.h>\nextern \"C\" __global__ void early() {}\n";
        let error = device.kernel(&KernelSource::from_text("early", text), "early").unwrap_err().to_string();
        if has_nvrtc() {
            assert!(error.contains("cuda_of_tomorrow.h") && error.contains("pip install \"cuda-toolkit"), "{error}");
        }
        Ok(())
    }

    fn headers_beside_the_kernel_and_of_cuda_are_found(device) {
        // On a GPU this compiles, which needs CUDA's own headers; the simulator uses the shipped PTX.
        if device.is_cuda() && has_nvrtc() && !has_headers() {
            let text = device.load(&HALF_OFFSET).unwrap_err().to_string();
            assert!(text.contains("cuda_fp16.h") && text.contains("pip install"), "{text}");
            return Ok(());
        }
        let stream = device.stream();
        let kernel = device.kernel(&HALF_OFFSET, "half_offset")?;
        let x = stream.clone_htod(&[f16::from_f32(1.25), f16::from_f32(-3.0)])?;
        let mut out = stream.alloc_poisoned::<f32>(2)?;
        // SAFETY: both buffers hold two values.
        unsafe {
            stream
                .launch_builder(&kernel)
                .arg(&x)
                .arg(&mut out)
                .arg(&2u32)
                .launch(LaunchConfig::linear(2, 32))?;
        }
        assert_eq!(stream.clone_dtoh(&out)?, [1.75, -2.5]);
        Ok(())
    }

    fn the_second_compilation_is_found_on_disk(device) {
        if !has_compiler() {
            println!("skipped: no compiler on this machine");
            return Ok(());
        }
        let source = KernelSource::from_text("cached", "extern \"C\" __global__ void cached() {}\n");
        device.load(&source)?;
        let again = if device.is_sim() { Device::sim() } else { Device::cuda(0)? };
        let origin = again.load(&source)?.origin().clone();
        assert!(matches!(origin, Origin::Cache { .. }), "{origin}");
        Ok(())
    }

    fn a_kernel_for_newer_gpus_is_unsupported_with_the_reason(device) {
        let source = KernelSource::from_text(
            "future",
            "// nvrtc: --gpu-architecture=compute_999\nextern \"C\" __global__ void future() {}\n",
        );
        if let Some((major, minor)) = device.properties().compute_capability {
            let error = device.load(&source).unwrap_err();
            assert!(error.is_unsupported(), "{error}");
            let text = error.to_string();
            assert!(text.ends_with(&format!("it needs sm_999, this GPU is sm_{major}{minor}")), "{text}");
        }
        let nonsense = KernelSource::from_text("nonsense", "// nvrtc: --gpu-architecture=fast\n");
        assert_eq!(
            device.load(&nonsense).unwrap_err().to_string(),
            "nonsense.cu: `fast` is not an architecture (compute_75, compute_80, compute_90a, …)"
        );
        Ok(())
    }

    fn a_module_is_loaded_once(device) {
        let first = device.kernel(&SCALE_ADD, "increment")?;
        let before = device.counts();
        let second = device.kernel(&SCALE_ADD, "increment")?;
        assert_eq!(first.params(), second.params());
        assert_eq!(device.counts(), before);
        assert!(device.load(&SCALE_ADD)?.kernel_names().eq(["scale_add", "increment"]));
        Ok(())
    }
}

#[test]
fn shipped_ptx_says_what_it_was_made_from_and_no_machine() {
    for source in [&SCALE_ADD, &HALF_OFFSET] {
        let ptx = source.shipped_ptx().unwrap();
        assert!(ptx.contains(".target sm_75"));
        assert!(ptx.contains(&format!("\"{}\"", source.label())), "no .file of {}", source.label());
        for line in ptx.lines().filter(|line| line.contains(".file")) {
            assert!(!line.contains("\"/") && !line.contains(':'), "{line}");
        }
        let path = source.path().unwrap();
        let root = ship::workspace_root(&path).unwrap();
        if source.source.contains("#include <") && has_nvrtc() && !has_headers() {
            println!(
                "shipped_ptx_says_what_it_was_made_from_and_no_machine: {} skipped, no CUDA headers",
                source.label()
            );
            continue;
        }
        assert_eq!(ship::check(&path, &root).unwrap(), ship::Status::Fresh);
    }
}

#[test]
fn the_command_finds_what_is_missing_stale_and_wrong() {
    // Inside this crate's own folders, so that the command looks for NVRTC where `has_nvrtc` does.
    let workspace = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let kernels = workspace.path().join("some-crate/kernels");
    fs::create_dir_all(&kernels).unwrap();
    fs::write(workspace.path().join("Cargo.toml"), "[workspace]\n").unwrap();
    let file = kernels.join("one.cu");
    fs::write(&file, "extern \"C\" __global__ void one(int *x) { *x = 1; }\n").unwrap();
    // Compiled in another way: its PTX is next to it.
    fs::write(kernels.join("other.cu"), "").unwrap();
    fs::write(kernels.join("other.ptx"), "").unwrap();
    let run = |args: &[&str]| {
        let output = assert_cmd::Command::cargo_bin("ship-ptx")
            .unwrap()
            .current_dir(workspace.path())
            .args(args)
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let one = std::path::Path::new("some-crate").join("kernels").join("one.cu");
    let (code, text) = run(&["--check"]);
    assert_eq!(code, Some(1));
    assert!(text.contains(&format!("missing: {}", one.display())) && !text.contains("other"), "{text}");

    let (code, text) = run(&[]);
    if !has_nvrtc() {
        assert_eq!(code, Some(1));
        assert!(text.contains("pip install"), "{text}");
        return;
    }
    assert_eq!((code, text.contains("1 compiled")), (Some(0), true), "{text}");
    let (code, shipped) = run(&["--show", "one"]);
    assert!(code == Some(0) && shipped.contains(".file\t1 \"some-crate/kernels/one.cu\""), "{shipped}");
    assert!(run(&["--show", "two"]).1.contains("0 kernels are called two"));
    assert_eq!(run(&["--check"]).0, Some(0));

    // The PTX changed by hand.
    ship::write(&file, &shipped.replace("mov", "cvt")).unwrap();
    let (code, text) = run(&["--check"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("damaged: "), "{text}");

    // The source changed.
    fs::write(&file, "extern \"C\" __global__ void one(int *x) { *x = 2; }\n").unwrap();
    let (code, text) = run(&["--check"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("stale: "), "{text}");
    assert_eq!(run(&[]).0, Some(0));
    assert_eq!(run(&["--check"]).0, Some(0));

    // A mistake in it.
    fs::write(&file, "extern \"C\" __global__ void one(int *x) { *x = ; }\n").unwrap();
    let (code, text) = run(&[]);
    assert_eq!(code, Some(1));
    assert!(text.contains("one.cu(1): error: expected an expression"), "{text}");

    let (code, text) = run(&["no-such.cu"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("no-such.cu"), "{text}");
}

/// `--time` appends to a file, `--create-pch` replaces one.
#[test]
fn options_that_write_files_do_not_reach_the_compiler() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("written");
    for option in ["--time", "--create-pch", "--fdevice-time-trace"] {
        let text = format!("// nvrtc: {option}={}\nextern \"C\" __global__ void f() {{}}\n", file.display());
        let error = Device::sim().load(&KernelSource::from_text("hostile", text)).unwrap_err();
        assert!(matches!(error, Error::Compile { .. } | Error::CompilerMissing { .. }), "{error}");
        assert!(error.to_string().contains(option) || !has_compiler(), "{error}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// A checkout with one kernel, and with `content` as the NVRTC of the environment `environment` in it.
#[cfg(target_os = "linux")]
fn checkout_with_nvrtc(environment: &str, content: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let wheel = dir.path().join(environment).join("lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib");
    fs::create_dir_all(&wheel).unwrap();
    let library = wheel.join("libnvrtc.so.13");
    fs::write(&library, content).unwrap();
    fs::create_dir(dir.path().join("kernels")).unwrap();
    fs::write(dir.path().join("Cargo.toml"), "[workspace]\n").unwrap();
    fs::write(dir.path().join("kernels/one.cu"), "extern \"C\" __global__ void one() {}\n").unwrap();
    (dir, library)
}

/// `ship-ptx` in that folder, with no environment active and nothing installed for this user.
#[cfg(target_os = "linux")]
fn ship_ptx(dir: &std::path::Path) -> assert_cmd::Command {
    let mut command = assert_cmd::Command::cargo_bin("ship-ptx").unwrap();
    command.current_dir(dir).env("HOME", dir);
    ["VIRTUAL_ENV", "CUDA_PATH", "CUDA_HOME", "CONDA_PREFIX"].iter().for_each(|name| {
        command.env_remove(name);
    });
    command
}

/// A library runs code when it is loaded, and a folder of hand-ins holds what strangers put there.
#[test]
#[cfg(target_os = "linux")]
fn an_nvrtc_in_the_working_directory_is_not_opened() {
    for environment in [".venv", "venv", "target/venv", ""] {
        let (dir, library) = checkout_with_nvrtc(environment, b"\x7fELF, or so it says");
        fs::create_dir(dir.path().join("below")).unwrap();
        for (folder, active) in [("", None), ("below", None), ("", Some(environment)), ("below", Some(".."))] {
            let mut command = ship_ptx(dir.path());
            command.current_dir(dir.path().join(folder));
            active.map(|active| command.env("VIRTUAL_ENV", active));
            let output = command.output().unwrap();
            let text = String::from_utf8(output.stderr).unwrap();
            assert!(!text.contains(&*library.to_string_lossy()) && !text.contains("file too short"), "{text}");
            assert!(output.status.success() || text.contains("pip install"), "{text}");
        }
    }
}

/// A file that is no library, and one that is another library, at the place of NVRTC in a wheel.
#[test]
#[cfg(target_os = "linux")]
fn a_broken_nvrtc_is_named_with_what_is_wrong_with_it() {
    // A library that this very process has loaded, so it can be.
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let other = maps.lines().find_map(|line| line.split_whitespace().last().filter(|path| path.contains("libgcc_s")));
    let broken = [Some(b"\x7fELF, or so it says".to_vec()), other.map(|path| fs::read(path).unwrap())];
    for (content, why) in broken.into_iter().zip(["file too short", "undefined symbol: nvrtc"]) {
        let Some(content) = content else {
            println!("skipped: no other library is loaded");
            continue;
        };
        let (dir, library) = checkout_with_nvrtc("", &content);
        let output = ship_ptx(dir.path()).env("VIRTUAL_ENV", dir.path()).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        if output.status.success() {
            println!("skipped: the system has an NVRTC that works");
            continue;
        }
        assert!(text.contains(&format!("NVRTC cannot be used: {}: ", library.display())), "{text}");
        assert!(text.contains(why) && text.contains("pip install"), "{text}");
    }
}
