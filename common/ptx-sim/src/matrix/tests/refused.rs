//! Tests of what `mma` and `wmma` refuse: forms that PTX lacks, and undefined metadata.

use super::super::{Lanes, Mma, WmmaAccess};

#[test]
fn what_ptx_does_not_have_is_refused_by_name() {
    for (text, named) in [
        ("sync.aligned.m16n8k16.col.row.f32.f16.f16.f32", "combination `.sync"),
        ("sync.aligned.m16n8k16.row.col.f16.f16.f16.f32", "combination"),
        ("sync.aligned.m16n8k8.row.col.f32.f16.f16.f16", "combination"),
        ("sync.aligned.m8n8k4.row.col.f16.f16.f16.f32", "combination"),
        ("sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f16", "combination"),
        ("sync.aligned.m16n8k16.row.col.f32.bf16.f16.f32", "combination"),
        ("sync.aligned.m16n8k16.row.col.f16.bf16.bf16.f16", "combination"),
        ("sync.aligned.m16n8k4.row.col.f32.f16.f16.f32", "combination"),
        ("sync.aligned.m16n8k8.row.col.s32.s8.s8.s32", "combination"),
        ("sync.aligned.m16n8k32.row.col.s32.s8.s4.s32", "combination"),
        ("sync.aligned.m16n8k16.row.col.satfinite.f32.f16.f16.f32", "combination"),
        ("sync.aligned.m8n8k128.row.col.s32.b1.b1.s32", "combination"),
        ("sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor", "combination"),
        ("sync.aligned.m16n8k16.row.col.rz.f32.f16.f16.f32", "combination"),
        ("sync.aligned.m16n8k16.row.f32.f16.f16.f32", "combination"),
        ("sync.aligned.row.col.f32.f16.f16.f32", "combination"),
        ("sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32", "modifier `.kind::f8f6f4`"),
        ("sp.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", "combination"),
        ("sp.sync.aligned.m16n8k64.row.col.f16.e4m3.e4m3.f16", "combination"),
        ("sp.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32", "combination"),
        ("sp::ordered.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", "modifier `.sp::ordered`"),
    ] {
        let error = Mma::parse_mma(&text.split('.').collect::<Vec<_>>(), 0).expect_err(text);
        assert!(error.starts_with(named), "{text}: {error}");
    }
    for text in [
        "mma.sync.aligned.row.row.m16n16k16.f32.f16.f16.f32",
        "mma.sync.aligned.row.row.m16n16k16.f16.f16.satfinite",
        "mma.sync.aligned.row.row.m16n16k16.s32.s8.u8.s32",
        "mma.sync.aligned.row.col.m8n8k32.s32.u4.s4.s32",
        "mma.sync.aligned.row.row.m8n8k32.s32.s4.s4.s32",
        "mma.sync.aligned.row.row.m16n16k8.f32.f32",
        "mma.sync.aligned.row.row.m16n16k8.f16.tf32.tf32.f16",
    ] {
        Mma::parse_wmma(&text.split('.').collect::<Vec<_>>()).expect_err(text);
    }
    for text in [
        "load.a.sync.aligned.col.m8n8k32.s4",
        "load.b.sync.aligned.row.m8n8k128.b1",
        "load.a.sync.aligned.row.m16n16k8.f16",
        "load.c.sync.aligned.row.m16n16k16.bf16",
        "load.d.sync.aligned.row.m16n16k16.f32",
        "store.a.sync.aligned.row.m16n16k16.f16",
        "store.d.sync.aligned.m16n16k16.f16",
        "store.d.sync.aligned.row.m8n8k4.f32",
    ] {
        WmmaAccess::parse(&text.split('.').collect::<Vec<_>>()).expect_err(text);
    }
}

fn sparse(text: &str, selector: u64) -> Result<Mma, String> {
    Mma::parse_mma(&text.split('.').collect::<Vec<_>>(), selector)
}

/// Registers of A, B and C in the sizes of the instruction; their contents do not matter.
fn with_metadata(mma: &Mma, metadata: &Lanes) -> Result<(), (usize, String)> {
    let [d, a, b, c] = mma.registers().map(|count| vec![[0; 32]; count]);
    let mut d = d;
    mma.execute((&a, Some(metadata)), &b, &c, &mut d).map_err(|invalid| (invalid.lane, invalid.message))
}

#[test]
fn a_sparsity_selector_names_lanes_that_a_group_has() {
    for (text, selectors) in [
        ("sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 4),
        ("sp.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32", 2),
        ("sp.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 4),
        ("sp.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32", 2),
        ("sp.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32", 2),
        ("sp.sync.aligned.m16n8k64.row.col.s32.s8.u8.s32", 1),
        ("sp.sync.aligned.m16n8k64.row.col.s32.u4.s4.s32", 2),
        ("sp.sync.aligned.m16n8k128.row.col.s32.s4.s4.s32", 1),
        ("sp.sync.aligned.m16n8k64.row.col.f32.e4m3.e5m2.f32", 1),
    ] {
        for selector in 0..5 {
            assert_eq!(sparse(text, selector).is_ok(), selector < selectors, "{text}, {selector}");
        }
        assert_eq!(sparse(text, u64::MAX).map(|_| ()), Err(format!("sparsity selector {}", u64::MAX)));
    }
}

#[test]
fn undefined_metadata_is_named() {
    let half = sparse("sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 2).expect("an instruction");
    // Selector 2: lanes 4 g + 2 hold rows g and g + 8; what the others hold does not matter.
    let mut metadata = [0; 32];
    for group in 0..8 {
        metadata[group * 4 + 2] = 0x4e94_1be4;
    }
    assert_eq!(with_metadata(&half, &metadata), Ok(()));
    metadata[14] = 0x4f94_1be4;
    let (lane, message) = with_metadata(&half, &metadata).expect_err("0b1111 is no pair of places");
    assert_eq!(
        (lane, &*message),
        (14, "the metadata of row 11 of A has 0b1111 for chunk 2, which keeps one place twice")
    );

    let ordered =
        sparse("sp::ordered_metadata.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32", 0).expect("an instruction");
    let mut metadata = [0x4444_4444; 32];
    assert_eq!(with_metadata(&ordered, &metadata), Ok(()));
    metadata[7] = 0x1444_4444;
    let (lane, message) = with_metadata(&ordered, &metadata).expect_err("0b0001 descends");
    assert_eq!(lane, 7);
    assert!(
        message.starts_with("the metadata of row 9 of A has 0b0001 for chunk 15, whose indices do not ascend"),
        "{message}"
    );

    let single = sparse("sp.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 0).expect("an instruction");
    assert_eq!(with_metadata(&single, &[0xe4e4_44ee; 32]), Ok(()));
    let (lane, message) = with_metadata(&single, &[0xe4e4_44e0; 32]).expect_err("0b0000 is no place");
    assert_eq!((lane, message.ends_with("which is neither 0b0100 nor 0b1110")), (0, true), "{message}");
}
