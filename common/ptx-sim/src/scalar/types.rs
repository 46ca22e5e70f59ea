//! The types of PTX, each defined once: its name, its width, its kind.

/// Declares [`Scalar`]: variant, name without its dot, width in bits.
macro_rules! types {
    ($($variant:ident $name:literal $bits:literal,)*) => {
        /// A type as named by instructions and declarations (PTX ISA, "Types"): contents of a register, pairs of such, and
        /// elements of matrices.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Scalar {
            $(#[doc = concat!("`.", $name, "`")] $variant,)*
        }

        impl Scalar {
            /// The type of that name, without its dot.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Some(match name {
                    $($name => Self::$variant,)*
                    _ => return None,
                })
            }

            /// Name in PTX, without the dot.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Width in bits, of all elements of a packed type together.
            #[must_use]
            pub const fn bits(self) -> u32 {
                match self {
                    $(Self::$variant => $bits,)*
                }
            }
        }
    };
}

types! {
    Pred "pred" 1,
    B8 "b8" 8,
    B16 "b16" 16,
    B32 "b32" 32,
    B64 "b64" 64,
    B128 "b128" 128,
    U8 "u8" 8,
    U16 "u16" 16,
    U32 "u32" 32,
    U64 "u64" 64,
    S8 "s8" 8,
    S16 "s16" 16,
    S32 "s32" 32,
    S64 "s64" 64,
    F16 "f16" 16,
    Bf16 "bf16" 16,
    Tf32 "tf32" 32,
    F32 "f32" 32,
    F64 "f64" 64,
    U16x2 "u16x2" 32,
    S16x2 "s16x2" 32,
    F16x2 "f16x2" 32,
    Bf16x2 "bf16x2" 32,
    F32x2 "f32x2" 64,
    E4m3x2 "e4m3x2" 16,
    E5m2x2 "e5m2x2" 16,
    E2m3x2 "e2m3x2" 16,
    E3m2x2 "e3m2x2" 16,
    E2m1x2 "e2m1x2" 8,
    E4m3 "e4m3" 8,
    E5m2 "e5m2" 8,
    E2m3 "e2m3" 6,
    E3m2 "e3m2" 6,
    E2m1 "e2m1" 4,
    S4 "s4" 4,
    U4 "u4" 4,
    B1 "b1" 1,
}

impl Scalar {
    /// The type of that name, if registers and variables can be declared with it.
    #[must_use]
    pub fn declared(name: &str) -> Option<Self> {
        Self::from_name(name).filter(|ty| ty.is_declared())
    }

    /// Whether registers and variables can be declared with it, and most instructions name it.
    #[must_use]
    pub fn is_declared(self) -> bool {
        use Scalar::*;
        let bits = matches!(self, Pred | B8 | B16 | B32 | B64 | B128);
        let integer = matches!(self, U8 | U16 | U32 | U64 | S8 | S16 | S32 | S64);
        bits || integer || matches!(self, F16 | F16x2 | Bf16 | Bf16x2 | Tf32 | F32 | F64)
    }

    /// Size in bytes; less than a byte counts as one.
    #[must_use]
    pub fn size(self) -> u32 {
        self.bits().div_ceil(8)
    }

    /// An integer with a sign.
    #[must_use]
    pub fn signed(self) -> bool {
        use Scalar::*;
        matches!(self, S8 | S16 | S32 | S64 | S16x2 | S4)
    }

    /// An integer, with a sign or without; `.b32` and the like are neither.
    #[must_use]
    pub fn is_integer(self) -> bool {
        use Scalar::*;
        matches!(self, U8 | U16 | U32 | U64 | S8 | S16 | S32 | S64)
    }

    /// A floating-point type that instructions compute with, or a pair of one.
    #[must_use]
    pub fn float(self) -> bool {
        use Scalar::*;
        matches!(self, F16 | F16x2 | Bf16 | Bf16x2 | Tf32 | F32 | F32x2 | F64)
    }

    /// Number of elements.
    #[must_use]
    pub fn elements(self) -> u32 {
        use Scalar::*;
        let pair = matches!(self, U16x2 | S16x2 | F16x2 | Bf16x2 | F32x2 | E4m3x2 | E5m2x2 | E2m3x2 | E3m2x2 | E2m1x2);
        if pair { 2 } else { 1 }
    }

    /// The integer type of that width without a sign: `.b8` to `.b128`.
    #[must_use]
    pub fn of_bytes(bytes: u32) -> Self {
        match bytes {
            1 => Self::B8,
            2 => Self::B16,
            4 => Self::B32,
            8 => Self::B64,
            _ => Self::B128,
        }
    }

    /// An integer type of twice the width, for `.wide`.
    #[must_use]
    pub fn doubled(self) -> Self {
        match self {
            Self::U16 => Self::U32,
            Self::S16 => Self::S32,
            Self::U32 => Self::U64,
            _ => Self::S64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_width_signedness_and_elements() {
        for name in ["u8", "s16", "b32", "f64", "u16x2", "f16x2", "bf16x2", "f32x2", "s4", "b1", "tf32", "pred", "e4m3"]
        {
            let ty = Scalar::from_name(name).expect(name);
            assert_eq!(ty.name(), name);
            let (element, count) =
                name.split_once('x').map_or((name, 1), |(element, count)| (element, count.parse().unwrap()));
            assert_eq!(ty.elements(), count, "{name}");
            assert_eq!(ty.signed(), name.starts_with('s'), "{name}");
            assert_eq!(ty.float(), ["f", "bf", "tf"].iter().any(|start| name.starts_with(start)), "{name}");
            if let Ok(bits) = element.trim_start_matches(char::is_alphabetic).parse::<u32>() {
                assert_eq!(ty.bits(), bits * count, "{name}");
            }
        }
        assert_eq!(Scalar::from_name("f8"), None);
        assert_eq!((Scalar::declared("b64"), Scalar::declared("s4")), (Some(Scalar::B64), None));
    }
}
