//! Runs PTX from a string: each of four threads doubles one number. `cargo run -p ptx-sim --example twice`

use ptx_sim::{Device, LaunchConfig, Module};

const PTX: &str = ".version 8.0 .target sm_80 .address_size 64
.visible .entry twice(.param .u64 data) {
    .reg .b32 %r<3>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [data]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r2, [%rd3]; add.u32 %r2, %r2, %r2; st.global.u32 [%rd3], %r2; ret;
}";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::new(Default::default());
    let module = device.load(&Module::from_ptx(PTX, "twice.ptx")?)?;
    let data = device.alloc(16, "data")?;
    device.write(data, &[1u32, 10, 100, 1000].map(u32::to_le_bytes).concat())?;
    module.kernel("twice")?.launch(&LaunchConfig { block: [4, 1, 1], ..Default::default() }, &[data.into()])?;
    let mut bytes = [0; 16];
    device.read(data, &mut bytes)?;
    println!("{:?}", bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect::<Vec<_>>());
    Ok(())
}
