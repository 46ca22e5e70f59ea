//! NVRTC's code for ordinary CUDA C runs on the simulator and gives the same results as on a GPU.
//!
//! `nvrtc/*.cu` use as much of the language as lessons might, one theme per file. The `nvrtc/*.rs` files define each kernel's
//! inputs and its expected results, computed here in Rust. Integers and IEEE arithmetic must match in every bit, approximate
//! functions within a stated distance of an f64 reference. So the simulator and a GPU agree within twice that distance.
//!
//! Needs NVRTC and CUDA's headers; without them the tests print so and pass, unless `REQUIRE_NVRTC=1`.

#[path = "nvrtc/control.rs"]
mod control;
#[path = "nvrtc/floats.rs"]
mod floats;
#[path = "nvrtc/groups.rs"]
mod groups;
#[path = "nvrtc/halves.rs"]
mod halves;
#[path = "nvrtc/harness.rs"]
mod harness;
#[path = "nvrtc/integers.rs"]
mod integers;
#[path = "nvrtc/layers.rs"]
mod layers;
#[path = "nvrtc/memory.rs"]
mod memory;
#[path = "nvrtc/tensor_cores.rs"]
mod tensor_cores;
#[path = "nvrtc/warps.rs"]
mod warps;

use common::Device;

/// For each theme, one test on the simulator, with code for several architectures, and one on a GPU, with code for its own.
macro_rules! themes {
    ($($theme:ident),+) => {
        $(
            common::private::paste! {
                #[test]
                fn [<every_kernel_loads_and_computes_ $theme _sim>]() {
                    if harness::nvrtc_is_here() {
                        let file = concat!(stringify!($theme), ".cu");
                        let text = include_str!(concat!("../nvrtc/", stringify!($theme), ".cu"));
                        harness::check(file, text, &$theme::cases(), &[75, 80, 90], |_| Device::sim());
                    }
                }

                #[test]
                fn [<every_kernel_loads_and_computes_ $theme _cuda>]() {
                    let name = concat!("every_kernel_loads_and_computes_", stringify!($theme));
                    if harness::nvrtc_is_here() && let Some(device) = common::private::cuda_for_test(name) {
                        let (major, minor) = device.properties().compute_capability.unwrap();
                        let file = concat!(stringify!($theme), ".cu");
                        let text = include_str!(concat!("../nvrtc/", stringify!($theme), ".cu"));
                        harness::check(file, text, &$theme::cases(), &[major * 10 + minor], |_| device.clone());
                    }
                }
            }
        )+
    };
}

themes!(control, floats, groups, halves, integers, layers, memory, tensor_cores, warps);
