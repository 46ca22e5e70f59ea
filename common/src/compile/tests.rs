//! Tests of where a kernel's code comes from.

use std::borrow::Cow;

use super::compiler::CompilerName;
use super::*;
use crate::probe;
use crate::testing::{away_from_sources, planted};

const SCALE_ADD: KernelSource = crate::kernel_source!("tests/kernels", "scale_add");

fn none(reason: &str) -> MissingCompiler {
    MissingCompiler { compiler: "NVRTC", reason: reason.to_owned(), remedy: probe::Library::Nvrtc.remedy() }
}

fn gpu(major: u32, minor: u32) -> Target {
    Target::Gpu { device: "cuda:0".to_owned(), capability: (major, minor) }
}

/// A kernel file of its own, with `ptx` shipped beside it.
fn on_disk(source: &str, ptx: &str) -> (tempfile::TempDir, KernelSource) {
    let crate_dir = tempfile::tempdir().unwrap();
    let path = crate_dir.path().join("kernels/scale_add.cu");
    std::fs::create_dir_all(ship::shipped_path(&path).parent().unwrap()).unwrap();
    std::fs::write(&path, source).unwrap();
    std::fs::write(ship::shipped_path(&path), ship::compress(ptx).unwrap()).unwrap();
    let manifest_dir = crate_dir.path().to_string_lossy().into_owned().into();
    (crate_dir, KernelSource { manifest_dir, dir: "kernels".into(), ..SCALE_ADD })
}

#[test]
fn without_nvrtc_only_ptx_of_this_very_source_is_used() {
    let ptx = SCALE_ADD.shipped_ptx().unwrap();
    for target in [Target::Simulator, gpu(9, 0)] {
        let compiled = compile_with(&SCALE_ADD, &target, Err(none("none"))).unwrap();
        assert_eq!(compiled.origin, Origin::Shipped);
        assert_eq!((compiled.cubin.is_none(), &*compiled.ptx), (true, &*ptx));

        let edited = SCALE_ADD.source.replace("a * x[i]", "x[i]");
        let unsigned = ptx.replace("// sha256", "// sum");
        let (damaged, cut) = (ptx.replace("fma", "add"), &ptx[..ptx.len() - 10]);
        let unhashed = ptx.replace("// body", "// boby");
        assert!(damaged != *ptx && unhashed != *ptx);
        for (source, ptx, why) in [
            (&*edited, &*ptx, "the source has changed since its PTX was shipped"),
            (&SCALE_ADD.source, &unsigned, "the shipped PTX does not say which source it was made from"),
            (&SCALE_ADD.source, &damaged, "PTX is damaged; `git restore PTX` brings it back"),
            (&SCALE_ADD.source, cut, "PTX is damaged; `git restore PTX` brings it back"),
            (&SCALE_ADD.source, &unhashed, "PTX is damaged; `git restore PTX` brings it back"),
        ] {
            let (_dir, source) = on_disk(source, ptx);
            let error = compile_with(&source, &target, Err(none("libnvrtc.so.13: file too short"))).unwrap_err();
            let ptx = source.label().replace("scale_add.cu", "ptx/scale_add.ptx.gz");
            assert_eq!(
                error.to_string(),
                format!(
                    "{} has to be compiled ({}), and NVRTC cannot be used: libnvrtc.so.13: file too short. \
                     Install it with:\n    {}",
                    source.label(),
                    why.replace("PTX is", &format!("{ptx} is")).replace("restore PTX", &format!("restore {ptx}")),
                    probe::Library::Nvrtc.remedy()
                )
            );
        }
        let unshipped = KernelSource::from_text("new", SCALE_ADD.source.clone());
        let error = compile_with(&unshipped, &target, Err(none("none"))).unwrap_err();
        assert!(error.to_string().starts_with("new.cu has to be compiled (no PTX is shipped with it)"), "{error}");
        let bare = KernelSource { ptx: None, ..away_from_sources(&SCALE_ADD) };
        let error = compile_with(&bare, &target, Err(none("none"))).unwrap_err().to_string();
        assert!(error.contains("reads PTX from its checkout") && error.contains("--release"), "{error}");
    }
}

const HALF_OFFSET: KernelSource = crate::kernel_source!("tests/kernels", "half_offset");

#[test]
fn a_checkout_whose_lines_end_as_on_windows_takes_the_shipped_ptx() {
    let windows = |text: &str| text.replace('\n', "\r\n");
    let (_dir, source) = on_disk(&windows(&SCALE_ADD.source), &SCALE_ADD.shipped_ptx().unwrap());
    let compiled = compile_with(&source, &Target::Simulator, Err(none("none"))).unwrap();
    assert_eq!(compiled.origin, Origin::Shipped);
    assert!(!compiled.ptx.contains('\r'));
}

#[test]
fn away_from_its_sources_a_kernel_has_its_headers() {
    let source = away_from_sources(&HALF_OFFSET);
    let on_disk = Current::read(&HALF_OFFSET.path().unwrap()).unwrap();
    assert_eq!(source.current().unwrap().hash(), on_disk.hash());
    assert_eq!(on_disk.headers.keys().collect::<Vec<_>>(), ["offset.h"]);
    let compiled = compile_with(&source, &Target::Simulator, Err(none("none"))).unwrap();
    assert_eq!(compiled.origin, Origin::Shipped);
    // Another header is another source.
    let headers = Cow::Borrowed(&[("offset.h", "#define OFFSET 0.25f\r\n")][..]);
    let error = compile_with(&KernelSource { headers, ..source }, &Target::Simulator, Err(none("none"))).unwrap_err();
    assert!(error.to_string().contains("the source has changed since its PTX was shipped"), "{error}");
}

#[test]
fn with_nvrtc_a_kernel_away_from_its_sources_is_compiled_with_the_embedded_headers() {
    let Ok(nvrtc) = Compiler::find(CompilerName::Nvrtc) else {
        println!("skipped: no NVRTC on this machine");
        return;
    };
    // The text without CUDA's own header, which a machine may lack.
    let text = "#include \"offset.h\"\nextern \"C\" __global__ void k(float *out) { *out = OFFSET; }\n";
    for (header, bits) in [("#define OFFSET 0.5f\n", "0f3F000000"), ("#define OFFSET 0.25f\n", "0f3E800000")] {
        // As `kernel_source!` makes it: names and texts that live as long as the program.
        let headers = Cow::Owned(vec![("offset.h", header)]);
        let source = KernelSource { source: text.into(), headers, ptx: None, ..away_from_sources(&HALF_OFFSET) };
        let compiled = compile_with(&source, &Target::Simulator, Ok(nvrtc)).unwrap();
        // NVRTC writes the value in the bits of an f32, or of an integer.
        let decimal = u32::from_str_radix(&bits[2..], 16).unwrap().to_string();
        assert!(compiled.ptx.contains(bits) || compiled.ptx.contains(&decimal), "{}", compiled.ptx);
    }
    let source =
        KernelSource { source: text.into(), headers: Cow::Borrowed(&[]), ptx: None, ..away_from_sources(&HALF_OFFSET) };
    let error = compile_with(&source, &Target::Simulator, Ok(nvrtc)).unwrap_err().to_string();
    assert!(error.contains("offset.h"), "{error}");
}

#[test]
fn with_nvrtc_damaged_ptx_is_compiled_again() {
    let Ok(nvrtc) = Compiler::find(CompilerName::Nvrtc) else {
        println!("skipped: no NVRTC on this machine");
        return;
    };
    let damaged = SCALE_ADD.shipped_ptx().unwrap().replace("fma", "add");
    let (_dir, source) = on_disk(&SCALE_ADD.source, &damaged);
    let compiled = compile_with(&source, &Target::Simulator, Ok(nvrtc)).unwrap();
    assert!(compiled.ptx.contains("fma") && compiled.origin != Origin::Shipped);
}

#[test]
fn with_nvrtc_a_gpu_gets_machine_code_of_its_own_and_a_newer_one_ptx() {
    let Ok(nvrtc) = Compiler::find(CompilerName::Nvrtc) else {
        println!("skipped: no NVRTC on this machine");
        return;
    };
    let compiled = compile_with(&SCALE_ADD, &gpu(9, 0), Ok(nvrtc)).unwrap();
    assert!(compiled.cubin.unwrap().starts_with(b"\x7fELF"));
    assert!(compiled.ptx.contains(".target sm_90"));
    assert_eq!(ptx::entries(&compiled.ptx), ptx::entries(&SCALE_ADD.shipped_ptx().unwrap()));

    let newest = nvrtc::nvrtc().unwrap().architectures().pop().unwrap();
    let compiled = compile_with(&SCALE_ADD, &gpu(99, 0), Ok(nvrtc)).unwrap();
    assert!(compiled.cubin.is_none());
    assert!(compiled.ptx.contains(&format!(".target sm_{newest}")));
}

#[test]
fn the_head_adds_options_and_sets_the_oldest_architecture() {
    let text = "// a kernel\n// nvrtc: --use_fast_math --gpu-architecture=compute_90a\n// nvrtc: -DN=4\nint x;\n";
    let current = Current { text: text.to_owned(), path: None, headers: BTreeMap::new() };
    let head = current.head();
    assert_eq!(head.architecture, "compute_90a");
    assert_eq!(head.allowed_options().unwrap(), ["--use_fast_math", "-DN=4"]);

    let source = KernelSource::from_text("variant", text);
    for (capability, runs) in [((8, 0), false), ((9, 0), true), ((10, 0), false)] {
        let target = gpu(capability.0, capability.1);
        let result = compile_with(&source, &target, Err(none("none")));
        let unsupported = matches!(result, Err(Error::Unsupported { .. }));
        assert_eq!(unsupported, !runs, "{capability:?}: {result:?}");
        assert_eq!(source.runs_on(capability).unwrap(), runs, "{capability:?}");
    }
    let unknown = KernelSource::from_text("unknown", "// nvrtc: -arch=sparc\n");
    assert!(unknown.runs_on((9, 0)).unwrap_err().to_string().contains("`sparc` is not an architecture"));
}

#[test]
fn edited_copies_in_a_folder_of_their_own_stand_in_for_kernels_and_headers() {
    let root = tempfile::tempdir().unwrap();
    let (edits, kernels) = (root.path().join("edits"), root.path().join("one/kernels"));
    for dir in [&kernels, &root.path().join("two/kernels"), &edits.join("two/kernels")] {
        std::fs::create_dir_all(dir).unwrap();
    }
    let kernel = kernels.join("a.cu");
    std::fs::write(&kernel, "#include \"../../two/kernels/b.cuh\"\n").unwrap();
    std::fs::write(root.path().join("two/kernels/b.cuh"), "int b;\n").unwrap();
    let edited = || Current::edited(&kernel, root.path(), &edits).unwrap();
    // Without a copy it is the file.
    assert_eq!(edited().path.as_deref(), Some(&*kernel));
    assert_eq!(edited().hash(), Current::read(&kernel).unwrap().hash());
    std::fs::write(edits.join("two/kernels/b.cuh"), "int edited;\n").unwrap();
    let header = edited();
    assert_eq!(header.path, None);
    assert_eq!(header.headers["../../two/kernels/b.cuh"], "int edited;\n");
    std::fs::create_dir_all(edits.join("one/kernels")).unwrap();
    std::fs::write(edits.join("one/kernels/a.cu"), "int alone;\n").unwrap();
    assert_eq!((edited().text.as_str(), edited().headers.len()), ("int alone;\n", 0));
}

#[test]
fn a_source_knows_the_files_that_it_is_made_from() {
    let label = "common/tests/kernels/half_offset.cu";
    assert!(HALF_OFFSET.is_made_from(label).unwrap() && !SCALE_ADD.is_made_from(label).unwrap());
    assert!(HALF_OFFSET.is_made_from("common/tests/kernels/offset.h").unwrap());
}

#[test]
fn headers_beside_the_kernel_are_part_of_its_hash() {
    let dir = tempfile::tempdir().unwrap();
    let kernel = dir.path().join("a.cu");
    std::fs::write(&kernel, "#include <cuda_fp16.h>\n  # include \"b.h\"\n").unwrap();
    std::fs::write(dir.path().join("b.h"), "#include \"c.h\"\n#include \"b.h\"\n").unwrap();
    let before = Current::read(&kernel).unwrap();
    assert_eq!(before.headers.keys().collect::<Vec<_>>(), ["b.h"]);
    assert!(before.needs_cuda_headers());
    std::fs::write(dir.path().join("c.h"), "// new\n").unwrap();
    let after = Current::read(&kernel).unwrap();
    assert_eq!(after.headers.keys().collect::<Vec<_>>(), ["b.h", "c.h"]);
    assert_ne!(before.hash(), after.hash());
}

/// Clang, if this machine has it.
fn clang(test: &str) -> Option<Compiler> {
    planted::clang(test).then(|| Compiler::find(CompilerName::Clang).unwrap())
}

#[test]
fn clang_names_the_lines_of_the_kernel_and_takes_the_options_of_its_head() {
    let Some(clang) = clang("clang_names_the_lines_of_the_kernel_and_takes_the_options_of_its_head") else { return };
    let text = "#include \"offset.h\"\nextern \"C\" __global__ void k(float *x, int n) {\n    \
                *x = OFFSET + n + __shfl_xor_sync(~0u, *x, N);\n}\n// nvrtc: -DN=4 --fmad=false\n";
    let headers = Cow::Owned(vec![("offset.h", "#define OFFSET *x * 0.5f\n")]);
    let source = KernelSource { source: text.into(), headers, ptx: None, ..away_from_sources(&HALF_OFFSET) };
    let compiled = compile_with(&source, &Target::Simulator, Ok(clang)).unwrap();
    assert!(compiled.ptx.contains("half_offset.cu\""), "{}", compiled.ptx);
    let lines: Vec<&str> = compiled.ptx.lines().map(str::trim).collect();
    // What is inlined from a header of clang's has the line that calls it.
    let shuffle = lines.iter().position(|line| line.starts_with("shfl.sync.bfly") && line.contains(", 4, 31")).unwrap();
    let place = lines[..shuffle].iter().rev().find_map(|line| line.strip_prefix(".loc")).unwrap();
    assert!(place.trim().starts_with("1 3 "), "{place}");
    assert!(!compiled.ptx.contains("fma."), "{}", compiled.ptx);
    assert!(matches!(compiled.origin, Origin::Compiled { .. } | Origin::Cache { .. }));

    for (wrong, message) in [
        ("    *x = OFFSET;\n    y = 1;\n", "half_offset.cu:4:5: error: use of undeclared identifier 'y'"),
        ("#include <cuda_fp16.h>\n", "this one takes NVRTC"),
    ] {
        let text = format!("#include \"offset.h\"\nextern \"C\" __global__ void k(float *x) {{\n{wrong}}}\n");
        let source = KernelSource { source: text.into(), ..source.clone() };
        let error = compile_with(&source, &Target::Simulator, Ok(clang)).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn clang_makes_ptx_for_a_gpu() {
    let Some(clang) = clang("clang_makes_ptx_for_a_gpu") else { return };
    let compiled = compile_with(&SCALE_ADD, &gpu(9, 0), Ok(clang)).unwrap();
    assert!(compiled.cubin.is_none() && compiled.ptx.contains(".target sm_75"));
    assert_eq!(ptx::entries(&compiled.ptx), ptx::entries(&SCALE_ADD.shipped_ptx().unwrap()));
}

/// Features of a kernel that clang, or its PTX, does not have.
fn beyond_clang(current: &Current) -> Option<&'static str> {
    let texts = std::iter::once(&current.text).chain(current.headers.values());
    let has = |word: &str| texts.clone().any(|text| text.contains(word));
    [
        ("#include <", "CUDA's headers"),
        ("__cluster_dims__", "clang 19 has no attribute for clusters"),
        ("wgmma", "its headers have wgmma, whose bool operands clang 19 prints as -1"),
    ]
    .into_iter()
    .find_map(|(word, why)| has(word).then_some(why))
}

/// Compiles the kernels of phases 1 to 3, which have nothing that clang lacks; with `ALL_FILES=1` all.
#[test]
fn clang_compiles_the_kernels_of_the_course() {
    use rayon::prelude::*;
    let Some(clang) = clang("clang_compiles_the_kernels_of_the_course") else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let is_early = |path: &Path| {
        let place = path.strip_prefix(root).unwrap().to_string_lossy();
        ["phase1", "phase2", "phase3"].iter().any(|phase| place.starts_with(phase))
    };
    let takes_all = std::env::var_os("ALL_FILES").is_some();
    let kernels = ship::kernels(root).unwrap();
    let chosen: Vec<_> = kernels.iter().filter(|path| takes_all || is_early(path)).collect();
    let bad: Vec<String> = chosen
        .par_iter()
        .filter_map(|path| {
            let current = Current::read(path).unwrap();
            if let Some(why) = beyond_clang(&current) {
                println!("{}: {why}", path.display());
                return is_early(path).then(|| format!("{}: {why}", path.display()));
            }
            let label = path.display().to_string();
            let options = current.options(&current.head().architecture, &label).unwrap();
            let output = run(clang, &current, &label, &label, &options);
            let ptx = output.map_err(|error| error.to_string()).map(|output| output.ptx);
            let loaded =
                ptx.and_then(|ptx| ptx_sim::Module::from_ptx(&ptx, &label).map_err(|error| error.render(false)));
            loaded.err().map(|error| format!("{label}: {error}"))
        })
        .collect();
    println!("{} kernels", chosen.len());
    assert!(chosen.len() > 100 && bad.is_empty(), "{}", bad.join("\n"));
}
