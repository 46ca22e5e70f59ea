//! Textures and surfaces as text.

use ptx_sim::{AddressMode, ChannelKind, Extent, Filter, Sampling, TexelFormat};

use super::argument::{Buffer, Contents};
use super::element::Element;

/// Properties of a texture or surface.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Object {
    pub extent: Extent,
    pub format: TexelFormat,
    /// Sampling of a texture.
    pub sampling: Option<Sampling>,
}

pub(super) const FORM: &str =
    "a texture is tex:EXTENT/OPTION…:TYPExCHANNELS:LIST, a surface surf:EXTENT:TYPExCHANNELS:LIST";

/// Parses the text after `tex:` or `surf:`.
pub(super) fn object(text: &str, texture: bool, name: Option<String>) -> Result<Buffer, String> {
    let [shape, ty, list] = *text.splitn(3, ':').collect::<Vec<_>>() else { return Err(FORM.into()) };
    let mut parts = shape.split('/');
    let (sizes, layers) = match parts.next().unwrap_or_default().split_once('@') {
        Some((sizes, layers)) => (sizes, Some(number(layers)?)),
        None => (shape.split('/').next().unwrap_or_default(), None),
    };
    let sizes = sizes.split('x').map(number).collect::<Result<Vec<_>, _>>()?;
    let (mut sampling, mut modes, mut linear_memory) = (Sampling::default(), Vec::new(), false);
    for option in parts {
        match option {
            _ if !texture => return Err(format!("`{option}`: a surface has no options")),
            "linear" => sampling.filter = Filter::Linear,
            "normalised" => sampling.normalised_coordinates = true,
            "normalised-float" => sampling.normalised_float = true,
            "memory" => linear_memory = true,
            mode => modes.push(address_mode(mode)?),
        }
    }
    sampling.address = addresses(&modes)?;
    let (ty, channels) = match ty.split_once('x') {
        Some((ty, channels)) => (ty, number(channels)?),
        None => (ty, 1),
    };
    let element = Element::named(ty)?;
    let object = Object {
        extent: extent(&sizes, layers, linear_memory)?,
        format: format(element, channels)?,
        sampling: texture.then_some(sampling),
    };
    Ok(Buffer { name, element, contents: Contents::Bytes(element.list(list)?), shown: !texture, object: Some(object) })
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number of texels, layers or channels"))
}

/// The shape from one to three sizes, with or without layers.
pub(crate) fn extent(sizes: &[u32], layers: Option<u32>, linear_memory: bool) -> Result<Extent, String> {
    Ok(match (sizes, layers, linear_memory) {
        (&[width], None, true) => Extent::Linear(width),
        (&[width], None, false) => Extent::OneD(width),
        (&[width, height], None, false) => Extent::TwoD(width, height),
        (&[width, height, depth], None, false) => Extent::ThreeD(width, height, depth),
        (&[width], Some(layers), false) => Extent::OneDLayered(width, layers),
        (&[width, height], Some(layers), false) => Extent::TwoDLayered(width, height, layers),
        _ => {
            return Err("an extent has one to three sizes, one or two of them with layers, one of linear memory".into());
        }
    })
}

/// Texels of channels of that type.
pub(crate) fn format(element: Element, channels: u32) -> Result<TexelFormat, String> {
    use Element::*;
    let kind = match element {
        U8 | B8 | U16 | B16 | U32 | B32 => ChannelKind::Unsigned,
        S8 | S16 | S32 => ChannelKind::Signed,
        F16 | F32 => ChannelKind::Float,
        Bf16 | F64 | U64 | S64 | B64 => return Err(format!("no texel has channels of {}", element.name())),
    };
    let channels = u8::try_from(channels).map_err(|_| format!("no texel has {channels} channels"))?;
    Ok(TexelFormat { channels, bits: element.size() as u8 * 8, kind })
}

pub(crate) fn address_mode(name: &str) -> Result<AddressMode, String> {
    Ok(match name {
        "wrap" => AddressMode::Wrap,
        "clamp" => AddressMode::Clamp,
        "mirror" => AddressMode::Mirror,
        "border" => AddressMode::Border,
        _ => {
            return Err(format!(
                "`{name}` is no option of a texture; there are linear, normalised, normalised-float, memory, wrap, clamp, mirror and border"
            ));
        }
    })
}

/// The modes of the three axes: one for all, or one for each.
pub(crate) fn addresses(modes: &[AddressMode]) -> Result<[AddressMode; 3], String> {
    match *modes {
        [] => Ok(Default::default()),
        [all] => Ok([all; 3]),
        [x, y] => Ok([x, y, AddressMode::default()]),
        [x, y, z] => Ok([x, y, z]),
        _ => Err("a texture has three axes at most".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_read() {
        let found =
            object("3x2@4/linear/wrap/mirror/normalised:u8x2:1,2", true, Some("photo".into())).expect("a texture");
        let sampling = Sampling {
            filter: Filter::Linear,
            address: [AddressMode::Wrap, AddressMode::Mirror, AddressMode::Clamp],
            normalised_coordinates: true,
            ..Default::default()
        };
        let format = TexelFormat { channels: 2, bits: 8, kind: ChannelKind::Unsigned };
        let expected = Object { extent: Extent::TwoDLayered(3, 2, 4), format, sampling: Some(sampling) };
        assert_eq!((found.object, found.shown, found.element), (Some(expected), false, Element::U8));
        let found = object("16:f32:1", false, None).expect("a surface");
        assert_eq!(found.object.map(|object| (object.extent, object.sampling)), Some((Extent::OneD(16), None)));
        assert!(found.shown);
        let found = object("16/memory:f16x4:1", true, None).expect("a texture");
        assert_eq!(found.object.map(|object| object.extent), Some(Extent::Linear(16)));
        for (text, reason) in [
            ("", "a texture is"),
            ("4:f32", "a texture is"),
            ("x:f32:1", "`` is not a number"),
            ("4x4x4@2:f32:1", "an extent has"),
            ("4x4/memory:f32:1", "an extent has"),
            ("4/soft:f32:1", "`soft` is no option"),
            ("4/wrap/wrap/wrap/wrap:f32:1", "three axes"),
            ("4:f64:1", "no texel has channels of f64"),
            ("4:u8x300:1", "no texel has 300"),
            ("4:u8:", "the list is empty"),
        ] {
            let error = object(text, true, None).expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
        assert!(object("4/wrap:u8:1", false, None).is_err());
    }
}
