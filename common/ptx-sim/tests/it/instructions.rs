//! Runs every case of `tests/instructions/*.ptx` on the simulator. The same files run on a GPU in `common/tests/`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use instruction_cases::{ArgSpec, Case, POISON, folder};
use ptx_sim::{Arg, Asynchrony, Device, DeviceConfig, Fidelity, FidelityRule, LaunchConfig, LoadedModule, Module};

/// Upper bound for a case; a kernel that hangs is a failure, not a wait.
const BUDGET: u64 = 1_000_000;

fn load(file: &str, case: &Case) -> Result<(Device, LoadedModule), String> {
    let device = Device::new(DeviceConfig { sanitize: true, ..Default::default() });
    let module = Module::from_ptx(&case.ptx, &format!("{file}.ptx")).map_err(|error| error.to_string())?;
    let module = device.load(&module).map_err(|error| error.to_string())?;
    Ok((device, module))
}

/// Orders of asynchronous copies that a case is run in: each gives the same results.
fn orders(case: &Case) -> &'static [Asynchrony] {
    const ALL: [Asynchrony; 3] = [Asynchrony::Late, Asynchrony::Early, Asynchrony::Seeded(1)];
    if case.ptx.contains(".async") { &ALL } else { &ALL[..1] }
}

fn run(device: &Device, module: &LoadedModule, case: &Case, asynchrony: Asynchrony) -> Result<(), String> {
    let in_context = |error: &dyn std::error::Error| format!("{}, {asynchrony:?}: {error}", case.name);
    let kernel = module.kernel(&case.kernel).map_err(|error| in_context(&error))?;
    let mut args = Vec::new();
    let mut buffers = Vec::new(); // (pointer, length, is it read back)
    for spec in &case.args {
        let (contents, read_back) = match spec {
            ArgSpec::Value(bytes) => {
                args.push(Arg::from_bytes(bytes));
                continue;
            }
            ArgSpec::In(bytes) => (bytes.clone(), false),
            ArgSpec::InOut(bytes) => (bytes.clone(), true),
            ArgSpec::Out(length) => (vec![POISON; *length], true),
        };
        let pointer = device.alloc(contents.len() as u64, "argument").map_err(|error| in_context(&error))?;
        device.write(pointer, &contents).map_err(|error| in_context(&error))?;
        args.push(Arg::from(pointer));
        buffers.push((pointer, contents.len(), read_back));
    }
    let config = LaunchConfig {
        grid: case.grid,
        block: case.block,
        shared_bytes: case.shared,
        budget: Some(BUDGET),
        asynchrony,
        ..Default::default()
    };
    let launched = kernel.launch(&config, &args).map_err(|error| in_context(&error));
    let mut outputs = Vec::new();
    for (pointer, length, read_back) in buffers {
        if read_back {
            let mut bytes = vec![0; length];
            device.read(pointer, &mut bytes).map_err(|error| in_context(&error))?;
            outputs.push(bytes);
        }
        device.free(pointer).map_err(|error| in_context(&error))?;
    }
    launched?;
    case.check(&outputs)
}

#[test]
fn every_case_gives_the_expected_bits() {
    let cases = instruction_cases::load(&folder()).expect("the heads are well formed");
    let mut by_file: BTreeMap<&str, Vec<&Case>> = BTreeMap::new();
    for case in &cases {
        by_file.entry(&case.file).or_default().push(case);
    }
    let mut failures = Vec::new();
    for (file, of_file) in &by_file {
        match load(file, of_file[0]) {
            Err(error) => failures.push(format!("{file}.ptx ({} cases) does not load: {error}", of_file.len())),
            Ok((device, module)) => {
                let all = of_file.iter().flat_map(|case| orders(case).iter().map(move |order| (case, *order)));
                failures.extend(all.filter_map(|(case, order)| run(&device, &module, case, order).err()));
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{}\n{} failures in {} cases of {} files",
        failures.join("\n"),
        failures.len(),
        cases.len(),
        by_file.len()
    );
    println!("{} cases passed, from {} files", cases.len(), by_file.len());
}

/// A runner that compares nothing would pass everything: wrong bits, a wrong length and a missing buffer must all fail.
#[test]
fn a_wrong_result_is_reported() {
    let source =
        ".version 7.0\n.target sm_75\n//! kernel: k\n//! arg: out:f32:3\n//! expect: f32:1,nan,_\n//! within: 2 ulp\n";
    let case = &instruction_cases::parse("sample", source).expect("the head is well formed")[0];
    let bytes = |values: [f32; 3]| vec![values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>()];
    let ulp = f32::EPSILON;
    assert_eq!(case.check(&bytes([1.0 + 2.0 * ulp, f32::NAN, 7.0])), Ok(()));
    let error = case.check(&bytes([1.0 + 3.0 * ulp, f32::NAN, 7.0])).expect_err("3 ulp are too many");
    assert!(error.contains("sample::k") && error.contains("element 0") && error.contains("0x3f800003"), "{error}");
    assert!(case.check(&bytes([f32::NAN, f32::NAN, 0.0])).is_err(), "a NaN is within no bound");
    assert!(case.check(&bytes([1.0, 1.0, 0.0])).is_err(), "`nan` wants a NaN");
    assert!(case.check(&[vec![0; 8]]).is_err(), "too short");
    assert!(case.check(&[]).is_err(), "no buffer");
}

/// Opcodes with their modifiers, as written in the files.
fn forms() -> BTreeSet<String> {
    let cases = instruction_cases::load(&folder()).expect("the heads are well formed");
    let sources: BTreeMap<String, Arc<str>> = cases.into_iter().map(|case| (case.file, case.ptx)).collect();
    let mut forms = BTreeSet::new();
    for source in sources.values() {
        let code = source.lines().map(|line| line.split("//").next().unwrap_or_default());
        for statement in code.flat_map(|line| line.split(';')) {
            let mut words =
                statement.split_whitespace().skip_while(|word| word.starts_with('@') || word.ends_with(':'));
            let Some(opcode) = words.next() else { continue };
            if opcode.starts_with(|first: char| first.is_ascii_lowercase()) && !opcode.ends_with(',') {
                forms.insert(opcode.to_owned());
            }
        }
    }
    forms
}

/// Checks each rule of fidelity: its files are there, try the mnemonics that it names, and state its bound.
#[test]
fn the_evidence_of_fidelity_is_there() {
    let texts = instruction_cases::texts(&instruction_cases::folder()).unwrap();
    for rule in FidelityRule::all().iter().filter(|rule| rule.fidelity != Fidelity::Manual) {
        let evidence: Vec<&str> = rule.evidence.split(' ').collect();
        let files: Vec<&str> =
            texts.iter().filter(|(stem, _)| evidence.contains(&stem.as_str())).map(|(_, text)| text.as_str()).collect();
        assert_eq!(files.len(), evidence.len(), "a file of {} is missing", rule.evidence);
        for name in rule.mnemonics.split(' ') {
            let forms = [format!("{name}."), format!("{name};")];
            assert!(files.iter().any(|text| forms.iter().any(|form| text.contains(form))), "{name}: {}", rule.evidence);
        }
        if let Fidelity::Within(bound) = rule.fidelity {
            let states = |text: &&str| text.lines().any(|line| line == format!("//! within: {bound}"));
            assert!(files.iter().all(states), "{bound}: {}", rule.evidence);
        }
    }
}

/// Minimum contents of the corpus: a mnemonic, and modifiers that must occur with it (in any order, in one form).
#[rustfmt::skip]
const MINIMUM: &[&str] = &[
    // integers
    "add.u16", "add.s64", "add.sat.s32", "sub.u64", "sub.sat.s32", "mul.lo.s16", "mul.hi.u64", "mul.wide.s32", "mad.lo.u64", "mad.hi.s16", "mad.wide.u16", "mad.hi.sat.s32",
    "div.s64", "div.u16", "rem.s32", "abs.s64", "neg.s16", "min.u64", "max.s16", "sad.s16", "add.cc", "addc.cc", "addc", "sub.cc", "subc.cc", "subc", "mad.lo.cc", "mad.hi.cc", "madc.lo", "madc.hi", "madc.hi.cc",
    // bits
    "and.pred", "or.b64", "xor.b16", "not.b64", "not.pred", "cnot.b32", "shl.b64", "shr.s16", "shr.b32", "shf.l.clamp", "shf.r.wrap", "lop3.b32", "prmt.b32", "prmt.b32.f4e", "prmt.b32.rc16",
    "bfe.s64", "bfi.b64", "bfind.shiftamt.s64", "brev.b64", "clz.b64", "popc.b64", "fns.b32", "bmsk.wrap", "szext.clamp", "dp4a.s32.u32", "dp2a.hi.u32.s32",
    // floats
    "add.rz.ftz.sat.f32", "sub.rm.f64", "mul.rp.f32", "fma.rn.f16x2", "fma.rn.relu.bf16x2", "fma.rm.ftz.f32", "mad.rn.f32", "mul.bf16", "add.ftz.sat.f16", "div.rp.f32", "div.rn.f64", "div.approx.ftz.f32", "div.full.f32",
    "rcp.rn.f64", "rcp.approx.f32", "sqrt.rz.f32", "sqrt.approx.f32", "sqrt.rp.f64", "rsqrt.approx.ftz.f32", "rsqrt.approx.f64", "ex2.approx.f32", "ex2.approx.f16x2", "ex2.approx.ftz.bf16", "lg2.approx.f32",
    "sin.approx.f32", "cos.approx.ftz.f32", "tanh.approx.f32", "tanh.approx.bf16x2", "neg.bf16x2", "abs.ftz.f16", "min.NaN.f32", "max.xorsign.abs.f16x2", "max.f64", "testp.subnormal.f64", "copysign.f32",
    "set.le.f16.f16", "set.and.u32.s32", "setp.leu.f32", "setp.nan.f64", "setp.lt.xor.s32", "setp.hs.u32", "setp.lt.f16x2", "setp.gt.bf16", "selp.f64", "slct.ftz.f32.f32", "slct.b64.s32",
    // conversions and moves
    "cvt.s8.u64", "cvt.sat.u8.s32", "cvt.rni.s64.f64", "cvt.rpi.ftz.u32.f32", "cvt.rm.f16.u32", "cvt.rp.f16.f64", "cvt.rz.f32.f64", "cvt.rn.relu.bf16x2.f32", "cvt.rz.f16x2.f32", "cvt.rna.tf32.f32", "cvt.rmi.bf16.bf16",
    "cvt.rn.satfinite.e4m3x2.f32", "cvt.rn.f16x2.e5m2x2", "cvt.sat.f32.f32", "cvt.pack.sat.u16.s32", "mov.b16", "mov.b32", "mov.b64", "mov.f64", "mov.pred",
    // memory
    "ld.global.v4.f32", "ld.shared.v2.f64", "ld.local.s8", "ld.const.v2.u32", "ld.param.v4.u32", "ld.global.nc.ca.u32", "ld.volatile.global.u32", "ld.acquire.sys.global.u32", "ld.relaxed.cta.u32", "ld.global.lu.u32", "ld.u32",
    "st.global.wt.u32", "st.release.gpu.global.u32", "st.volatile.shared.u32", "st.local.v4.u32", "st.param.b32", "cvta.const.u64", "cvta.to.shared.u64", "cvta.param.u64", "isspacep.local", "isspacep.const", "prefetch.global.L2",
    "prefetchu.L1", "ldu.global.v2.f64", "fence.sc.sys", "fence.acq_rel.cta", "membar.gl", "cp.async.ca.shared.global", "cp.async.cg.shared.global", "cp.async.commit_group", "cp.async.wait_group", "cp.async.wait_all",
    "atom.global.add.f64", "atom.shared.add.noftz.f16x2", "atom.add.noftz.bf16x2", "atom.global.cas.b16", "atom.cas.b64", "atom.shared.exch.b64", "atom.inc.u32", "atom.global.dec.u32", "atom.shared.max.s64", "atom.acq_rel.sys.global.add.u32",
    "red.shared.and.b64", "red.global.add.noftz.bf16", "red.release.cta.global.add.u32", "red.min.u64",
    // control
    "bra", "bra.uni", "brx.idx", "brx.idx.uni", "call", "call.uni", "ret", "exit", "trap", "bar.sync", "barrier.sync", "barrier.sync.aligned", "bar.arrive", "bar.red.and.pred", "bar.red.or.pred", "bar.red.popc.u32", "bar.warp.sync",
    "activemask.b32", "shfl.sync.up.b32", "shfl.sync.down.b32", "shfl.sync.bfly.b32", "shfl.sync.idx.b32", "vote.sync.all.pred", "vote.sync.any.pred", "vote.sync.uni.pred", "vote.sync.ballot.b32",
    "match.any.sync.b64", "match.all.sync.b32", "redux.sync.add.s32", "redux.sync.xor.b32", "redux.sync.max.u32", "elect.sync", "nanosleep.u32",
    // matrices
    "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", "stmatrix.sync.aligned.m8n8.x2.shared.b16", "wmma.load.a.col.m32n8k16.f16", "wmma.mma.m8n32k16.f16.f16", "wmma.mma.m16n16k16.s32.s8.satfinite", "wmma.mma.m16n16k8.f32.tf32",
    "wmma.mma.m16n16k16.bf16", "wmma.mma.m8n8k4.f64", "wmma.store.d.col.m16n16k16.f32", "mma.m16n8k16.f32.f16", "mma.m16n8k8.f16", "mma.m16n8k16.bf16", "mma.m16n8k8.tf32", "mma.m16n8k4.tf32", "mma.m16n8k32.s8.u8", "mma.m8n8k16.u8",
    "mma.m16n8k32.satfinite.s8", "mma.m16n8k64.s4", "mma.m16n8k256.b1.and.popc", "mma.m8n8k4.f64",
];

#[test]
fn the_corpus_covers_the_minimum() {
    let forms = forms();
    let missing: Vec<&str> = MINIMUM
        .iter()
        .copied()
        .filter(|wanted| {
            let mut parts = wanted.split('.');
            let mnemonic = parts.next().unwrap_or_default();
            let modifiers: Vec<&str> = parts.collect();
            !forms.iter().any(|form| {
                let mut have = form.split('.');
                have.next() == Some(mnemonic) && {
                    let have: Vec<&str> = have.collect();
                    modifiers.iter().all(|modifier| have.contains(modifier))
                }
            })
        })
        .collect();
    assert!(missing.is_empty(), "no test has {missing:?}");
    println!("{} instruction forms", forms.len());
    assert!(forms.len() >= 1900, "{} forms", forms.len());
}
