//! Decoding of a texel's bytes.

use super::{ChannelKind, Sampling, TexelFormat};
use crate::scalar::half::{F16, Half};

/// A texel's channels as 32-bit register contents.
pub(super) type Texel = [u32; 4];

/// Whether a read returns floats.
pub(super) fn is_float(format: TexelFormat, sampling: &Sampling) -> bool {
    format.kind == ChannelKind::Float || sampling.normalised_float
}

/// A channel, from its bits in memory.
fn channel(format: TexelFormat, sampling: &Sampling, bits: u64) -> u32 {
    let signed = |bits: u64| ((bits as i64) << (64 - format.bits) >> (64 - format.bits)) as i32;
    match (format.kind, format.bits) {
        (ChannelKind::Float, 16) => F16::widen(bits & 0xffff).to_bits(),
        (ChannelKind::Unsigned, width @ (8 | 16)) if sampling.normalised_float => {
            let largest = f64::from((1u32 << width) - 1);
            ((bits as f64 / largest) as f32).to_bits()
        }
        (ChannelKind::Signed, width @ (8 | 16)) if sampling.normalised_float => {
            let largest = f64::from((1u32 << (width - 1)) - 1);
            // Both of the two smallest are -1.
            ((f64::from(signed(bits)) / largest).max(-1.0) as f32).to_bits()
        }
        (ChannelKind::Signed, _) => signed(bits) as u32,
        _ => bits as u32,
    }
}

/// A texel, from its channels' bits in memory. Channels that the format lacks are 0, the fourth too, as on an H200.
pub(super) fn texel(format: TexelFormat, sampling: &Sampling, bits: &[u64; 4]) -> Texel {
    let mut texel = [0; 4];
    for (to, bits) in texel.iter_mut().zip(bits).take(format.channels.into()) {
        *to = channel(format, sampling, *bits);
    }
    texel
}

/// Texel beyond the border.
pub(super) fn border(format: TexelFormat, sampling: &Sampling) -> Texel {
    let mut texel = self::texel(format, sampling, &[0; 4]);
    for (to, colour) in texel.iter_mut().zip(sampling.border).take(format.channels.into()) {
        *to = match format.kind {
            _ if is_float(format, sampling) => colour.to_bits(),
            ChannelKind::Signed => colour as i32 as u32,
            _ => colour as u32,
        };
    }
    texel
}
