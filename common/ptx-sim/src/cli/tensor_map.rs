//! Tensor maps as text.

use ptx_sim::{
    DevicePtr, Interleave, OutsideFill, Swizzle, TensorElement, TensorMapDescriptor, TensorMapError, TensorWindow,
};

use super::argument::Address;

/// A map of a tensor in a buffer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Map {
    pub of: Address,
    tensor: TensorMapDescriptor,
}

const FORM: &str = "a tensor map is tmap:BUFFER/TYPE/EXTENTS/OPTION…, with box=SIZES or with lower, upper, channels and pixels among the options";

impl Map {
    /// The descriptor, once the buffer's address is known.
    pub(crate) fn at(&self, address: u64) -> TensorMapDescriptor {
        TensorMapDescriptor { address: DevicePtr(address), ..self.tensor.clone() }
    }
}

/// Parses the text after `tmap:`.
pub(super) fn map(text: &str, address: impl Fn(&str) -> Result<Address, String>) -> Result<Map, String> {
    let [buffer, element, extents, options @ ..] = &*text.split('/').collect::<Vec<_>>() else {
        return Err(FORM.into());
    };
    let mut parts = Parts::default();
    for option in options {
        match option.split_once('=') {
            Some(("box", sizes)) => parts.sizes = Some(numbers(sizes)?),
            Some(("strides", bytes)) => parts.strides = Some(numbers(bytes)?),
            Some(("steps", steps)) => parts.element_strides = Some(numbers(steps)?),
            Some(("lower", corner)) => parts.lower = Some(numbers(corner)?),
            Some(("upper", corner)) => parts.upper = Some(numbers(corner)?),
            Some(("channels", count)) => parts.channels = Some(number(count)?),
            Some(("pixels", count)) => parts.pixels = Some(number(count)?),
            Some(("swizzle", bytes)) => parts.swizzle = number(bytes)?,
            Some(("atom", bytes)) => parts.atom = number(bytes)?,
            Some(("interleave", bytes)) => parts.interleave = number(bytes)?,
            None if *option == "flip" => parts.flip = true,
            None if *option == "nan" => parts.nan = true,
            _ => return Err(format!("`{option}`: {FORM}")),
        }
    }
    parts.map(address(buffer)?, element, numbers(extents)?)
}

/// Parts of a map as they are written.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub sizes: Option<Vec<u32>>,
    pub strides: Option<Vec<u64>>,
    pub element_strides: Option<Vec<u32>>,
    pub lower: Option<Vec<i32>>,
    pub upper: Option<Vec<i32>>,
    pub channels: Option<u32>,
    pub pixels: Option<u32>,
    /// Bytes; 0 is none.
    pub swizzle: u32,
    /// Bytes of an atom of the swizzle, if not 16, and whether the halves of each 16 bytes are exchanged in every other line.
    pub atom: u32,
    pub flip: bool,
    pub interleave: u32,
    pub nan: bool,
}

impl Parts {
    pub(crate) fn map(self, of: Address, element: &str, extents: Vec<u64>) -> Result<Map, String> {
        let Some(element) = TensorElement::ALL.into_iter().find(|known| known.name() == element) else {
            let known: Vec<&str> = TensorElement::ALL.iter().map(|known| known.name()).collect();
            return Err(format!("`{element}` is no type of a tensor's elements; there are {}", known.join(", ")));
        };
        let window = match (self.sizes, self.lower, self.upper, self.channels, self.pixels) {
            (Some(sizes), None, None, None, None) => TensorWindow::Tiled(sizes),
            (None, Some(lower), Some(upper), Some(channels), Some(pixels)) => {
                TensorWindow::Im2col { lower, upper, channels, pixels }
            }
            _ => return Err(FORM.into()),
        };
        let dense = TensorMapDescriptor::tiled(element, DevicePtr(0), &extents, &[]);
        let tensor = TensorMapDescriptor {
            strides: self.strides.unwrap_or(dense.strides),
            element_strides: self.element_strides.unwrap_or(dense.element_strides),
            window,
            swizzle: match (self.swizzle, self.atom, self.flip) {
                (0, 0, false) => Swizzle::None,
                (32, 0, false) => Swizzle::Bytes32,
                (64, 0, false) => Swizzle::Bytes64,
                (128, 0, false) => Swizzle::Bytes128,
                (128, 32, false) => Swizzle::Bytes128Atom32,
                (128, 32, true) => Swizzle::Bytes128Atom32Flip8,
                (128, 64, false) => Swizzle::Bytes128Atom64,
                (0 | 32 | 64 | 128, ..) => {
                    return Err("a swizzle of 128 bytes may have atoms of 32 bytes, flipped or not, or of 64".into());
                }
                (other, ..) => return Err(format!("a swizzle is of 32, 64 or 128 bytes, not {other}")),
            },
            interleave: match self.interleave {
                0 => Interleave::None,
                16 => Interleave::Bytes16,
                32 => Interleave::Bytes32,
                other => return Err(format!("interleaved slices have 16 or 32 bytes, not {other}")),
            },
            fill: if self.nan { OutsideFill::Nan } else { OutsideFill::Zero },
            element,
            address: DevicePtr(0),
            extents,
        };
        tensor.check().map_err(|error: TensorMapError| error.to_string())?;
        Ok(Map { of, tensor })
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number that stands here"))
}

fn numbers<T: std::str::FromStr>(text: &str) -> Result<Vec<T>, String> {
    text.split('x').map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Map, String> {
        map(text, |name| Ok(Address { name: Some(name.to_owned()), offset: 0 }))
    }

    #[test]
    fn maps_are_read() {
        let found = read("x/f16/64x100/box=64x16/swizzle=128").expect("a map").at(512);
        let expected = TensorMapDescriptor::tiled(TensorElement::F16, DevicePtr(512), &[64, 100], &[64, 16]);
        assert_eq!(found, TensorMapDescriptor { swizzle: Swizzle::Bytes128, ..expected });
        for (atom, swizzle) in [
            ("atom=32", Swizzle::Bytes128Atom32),
            ("atom=32/flip", Swizzle::Bytes128Atom32Flip8),
            ("atom=64", Swizzle::Bytes128Atom64),
        ] {
            let found = read(&format!("x/f16/64x100/box=64x16/swizzle=128/{atom}")).expect(atom).at(0);
            assert_eq!(found.swizzle, swizzle);
        }
        let found = read("x/f32/30x9/strides=128/box=4x9/steps=1x2/nan").expect("a map").at(0);
        assert_eq!((found.strides, found.element_strides, found.fill), (vec![128], vec![1, 2], OutsideFill::Nan));
        let found = read("x/bf16/16x9x8x3/lower=-1x-1/upper=-1x-1/channels=16/pixels=32").expect("a map").at(0);
        let window = TensorWindow::Im2col { lower: vec![-1, -1], upper: vec![-1, -1], channels: 16, pixels: 32 };
        assert_eq!(found.window, window);
        for (text, reason) in [
            ("x", "a tensor map is"),
            ("x/f16/64x100", "a tensor map is"),
            ("x/f16/64x100/box", "`box`: a tensor map is"),
            ("x/f12/64/box=8", "`f12` is no type"),
            ("x/f16/64x/box=8", "`` is not a number"),
            ("x/f16/64/box=-8", "`-8` is not a number"),
            ("x/f16/64/box=8/swizzle=48", "32, 64 or 128"),
            ("x/f16/64/box=8/swizzle=64/atom=32", "atoms of 32 bytes"),
            ("x/f16/64/box=8/swizzle=128/atom=64/flip", "atoms of 32 bytes"),
            ("x/f16/64/box=8/interleave=8", "16 or 32"),
            ("x/f16/64/box=4", "not a multiple of 16"),
            ("x/f16/60x4/box=8x4", "the stride of dimension 1 is 120 bytes"),
            ("x/f16/64/box=8/lower=0", "a tensor map is"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
