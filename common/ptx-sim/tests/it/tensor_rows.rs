//! `cp.async.bulk.tensor` in the modes `tile::gather4` and `tile::scatter4`: four rows of a tensor, one by one.

use ptx_sim::{
    Arg, Device, DeviceConfig, LaunchConfig, LaunchError, Module, Swizzle, TensorElement, TensorMapDescriptor,
};

/// One thread gathers four rows of the first tensor and scatters them to the second.
const PTX: &str = "
.version 9.0
.target sm_100a
.address_size 64
.visible .entry rows(.param .align 64 .b8 from[128], .param .align 64 .b8 to[128], .param .u32 column, .param .align 4 .b8 of[16])
{
    .reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %rd<5>;
    .shared .align 1024 .b8 box[1024];
    .shared .align 8 .b64 bar;
    mov.u32 %r1, box;
    mov.u32 %r2, bar;
    mov.b64 %rd1, from;
    cvta.param.u64 %rd1, %rd1;
    mov.b64 %rd2, to;
    cvta.param.u64 %rd2, %rd2;
    ld.param.u32 %r3, [column];
    ld.param.u32 %r4, [of];
    ld.param.u32 %r5, [of+4];
    ld.param.u32 %r6, [of+8];
    ld.param.u32 %r7, [of+12];
    mbarrier.init.shared.b64 [%r2], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared.b64 %rd3, [%r2], 256;
    cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r3, %r4, %r5, %r6, %r7}], [%r2];
wait:
    mbarrier.try_wait.shared.b64 %p1, [%r2], %rd3;
    @!%p1 bra wait;
    cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%rd2, {%r3, %r7, %r4, %r6, %r5}], [%r1];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    ret;
}";

const ROWS: usize = 12;
const COLUMNS: usize = 32;

fn run(height: u32, swizzle: Swizzle, column: i32, rows: [i32; 4]) -> Result<Vec<u32>, LaunchError> {
    let device = Device::new(DeviceConfig { sanitize: true, strict: true, ..Default::default() });
    let module = device.load(&Module::from_ptx(PTX, "rows.ptx").unwrap()).unwrap();
    let tensor = |values: Vec<u32>| {
        let pointer = device.alloc((ROWS * COLUMNS * 4) as u64, "tensor").unwrap();
        device.write(pointer, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
        let (element, extents) = (TensorElement::U32, [COLUMNS as u64, ROWS as u64]);
        let map = TensorMapDescriptor::tiled(element, pointer, &extents, &[16, height]);
        (pointer, TensorMapDescriptor { swizzle, ..map }.encode().unwrap())
    };
    let (_, from) = tensor((0..(ROWS * COLUMNS) as u32).collect());
    let (written, to) = tensor(vec![u32::MAX; ROWS * COLUMNS]);
    let args = [(&from).into(), (&to).into(), Arg::from(column), Arg::from_bytes(&rows.map(i32::to_le_bytes).concat())];
    module.kernel("rows").unwrap().launch(&LaunchConfig { block: [1, 1, 1], ..Default::default() }, &args)?;
    let mut bytes = vec![0; ROWS * COLUMNS * 4];
    device.read(written, &mut bytes).unwrap();
    Ok(bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect())
}

#[test]
fn rows_are_gathered_and_scattered_one_by_one() {
    for swizzle in [Swizzle::None, Swizzle::Bytes64] {
        for (column, rows) in [(0, [7, 0, 11, 3]), (16, [2, 9, 5, 1]), (20, [4, 5, 6, 7]), (8, [3, 12, 1, -1])] {
            let mut expected = vec![u32::MAX; ROWS * COLUMNS];
            // The kernel writes the gathered rows to these.
            for (from, to) in rows.into_iter().zip([rows[3], rows[0], rows[2], rows[1]]) {
                for at in column as usize..(column as usize + 16).min(COLUMNS) {
                    let is_inside = |row: i32| (0..ROWS as i32).contains(&row);
                    if is_inside(to) {
                        let value = if is_inside(from) { from as usize * COLUMNS + at } else { 0 };
                        expected[to as usize * COLUMNS + at] = value as u32;
                    }
                }
            }
            let found = run(1, swizzle, column, rows).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(found, expected, "{swizzle:?}, column {column}, rows {rows:?}");
        }
    }
    let Err(error) = run(2, Swizzle::None, 0, [0, 1, 2, 3]) else { panic!("boxes of two rows are accepted") };
    assert!(error.to_string().contains("boxes of 2 rows"), "{error}");
}
