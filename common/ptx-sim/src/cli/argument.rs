//! A kernel's arguments as text.

use std::path::Path;

use super::element::Element;
use super::object::{self, Object};
use super::tensor_map::{self, Map};

/// One argument of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Argument {
    Value(Value),
    /// A buffer of its own; the kernel gets its address.
    Buffer(Buffer),
}

/// An argument passed by value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// A number, or several of one type.
    Numbers {
        element: Element,
        bytes: Vec<u8>,
    },
    Address(Address),
    /// Fields of different types, laid out as C does.
    Struct(Vec<Value>),
    Map(Box<Map>),
    /// A map defined in a table of the case.
    NamedMap(String),
}

/// An address in a buffer, as `NAME+BYTES`, or `null`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// The buffer or the module's variable; none for the null pointer.
    pub name: Option<String>,
    pub offset: u64,
}

/// Device memory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Buffer {
    /// Name for use in other arguments.
    pub name: Option<String>,
    pub element: Element,
    pub contents: Contents,
    /// Whether it is printed after the launch.
    pub shown: bool,
    /// Texture or surface made from the buffer.
    pub object: Option<Object>,
}

/// Contents of a buffer before the launch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Contents {
    Bytes(Vec<u8>),
    /// This many bytes of 0.
    Zeros(u64),
    /// This many unwritten bytes.
    Unwritten(u64),
}

impl Contents {
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Zeros(bytes) | Self::Unwritten(bytes) => *bytes,
        }
    }
}

/// An argument of the command line.
pub(super) fn argument(text: &str) -> Result<Argument, String> {
    match value(text, Path::new("")) {
        Some(value) => value.map(Argument::Value),
        None => buffer(text).map(Argument::Buffer),
    }
}

/// An argument of a case in `folder`, whose buffers have their own tables.
pub(crate) fn case_argument(text: &str, folder: &Path) -> Result<Argument, String> {
    let form = || Err(format!("`{text}` is not TYPE:VALUE, ptr:NAME, struct:FIELD/FIELD or tmap:MAP"));
    value(text, folder).unwrap_or_else(form).map(Argument::Value)
}

/// `TYPE:VALUE`, `TYPE:@FILE` with a path relative to `folder`, `ptr:ADDRESS` or `struct:FIELD/FIELD…`; `None` for what may
/// be a buffer.
fn value(text: &str, folder: &Path) -> Option<Result<Value, String>> {
    let (kind, rest) = text.split_once(':')?;
    if matches!(kind, "in" | "inout" | "out" | "tex" | "surf") || kind.contains('=') {
        return None;
    }
    let field = |text: &str| match value(text, folder) {
        Some(Ok(Value::Struct(_) | Value::Map(_) | Value::NamedMap(_))) | None => {
            Err(format!("the field `{text}` is not TYPE:VALUE or ptr:NAME"))
        }
        Some(field) => field,
    };
    Some(match kind {
        "ptr" => address(rest).map(Value::Address),
        "tmap" if !rest.contains('/') => identifier(rest).map(Value::NamedMap),
        "tmap" => tensor_map::map(rest, address).map(|map| Value::Map(Box::new(map))),
        "struct" => {
            // A part without a type belongs to the path of the file before it.
            let mut fields: Vec<String> = Vec::new();
            for part in rest.split('/') {
                match fields.last_mut() {
                    Some(path) if !part.contains(':') => *path += &format!("/{part}"),
                    _ => fields.push(part.to_owned()),
                }
            }
            fields.iter().map(|text| field(text)).collect::<Result<_, _>>().map(Value::Struct)
        }
        _ => Element::named(kind).map_err(|error| format!("{error}; {FORM}")).and_then(|element| {
            let bytes = match rest.strip_prefix('@') {
                Some(file) => element.file(&folder.join(file))?,
                None => rest.split(',').map(|value| element.bytes_of(value)).collect::<Result<Vec<_>, _>>()?.concat(),
            };
            Ok(Value::Numbers { element, bytes })
        }),
    })
}

const FORM: &str = "an argument is TYPE:VALUE, in:TYPE:LIST, inout:TYPE:LIST, out:TYPE:COUNT, ptr:NAME, struct:FIELD/FIELD, tmap:…, tex:… or surf:…";

/// `[NAME=]in:TYPE:LIST`, `inout` or `out`; a texture or a surface.
pub(super) fn buffer(text: &str) -> Result<Buffer, String> {
    let (head, rest) = text.split_once(':').ok_or(FORM)?;
    let (name, kind) = match head.split_once('=') {
        Some((name, kind)) => (Some(identifier(name)?), kind),
        None => (None, head),
    };
    if matches!(kind, "tex" | "surf") {
        return object::object(rest, kind == "tex", name);
    }
    if !matches!(kind, "in" | "inout" | "out") {
        return Err(FORM.into());
    }
    let (ty, list) = rest.split_once(':').ok_or(FORM)?;
    let element = Element::named(ty)?;
    let contents = if kind == "out" {
        let count: u64 = list.parse().map_err(|_| format!("`{list}` is not a number of elements"))?;
        Contents::Unwritten(element.bytes_of_count(count)?)
    } else {
        Contents::Bytes(element.list(list)?)
    };
    Ok(Buffer { name, element, contents, shown: kind != "in", object: None })
}

/// A buffer of `--buffer`, which needs a name.
pub(super) fn named_buffer(text: &str) -> Result<Buffer, String> {
    let buffer = buffer(text)?;
    if buffer.name.is_some() { Ok(buffer) } else { Err("a buffer is NAME=in:TYPE:LIST, inout or out".into()) }
}

/// `NAME=TYPE:LIST`: a variable's first bytes.
pub(super) fn variable(text: &str) -> Result<(String, Element, Vec<u8>), String> {
    let form = || format!("`{text}` is not NAME=TYPE:LIST");
    let (name, list) = text.split_once('=').ok_or_else(form)?;
    let (ty, list) = list.split_once(':').ok_or_else(form)?;
    let element = Element::named(ty)?;
    Ok((identifier(name)?, element, element.list(list)?))
}

/// `NAME=FILE`.
pub(super) fn output(text: &str) -> Result<(String, std::path::PathBuf), String> {
    let (name, file) = text.split_once('=').ok_or_else(|| format!("`{text}` is not NAME=FILE"))?;
    Ok((name.to_owned(), file.into()))
}

/// `NAME`, `NAME+BYTES` or `null`.
pub(crate) fn address(text: &str) -> Result<Address, String> {
    if text == "null" {
        return Ok(Address { name: None, offset: 0 });
    }
    let (name, offset) = text.split_once('+').unwrap_or((text, "0"));
    let offset = offset.parse().map_err(|_| format!("`{offset}` is not a number of bytes"))?;
    Ok(Address { name: Some(identifier(name)?), offset })
}

/// A name as PTX has them.
fn identifier(text: &str) -> Result<String, String> {
    let begins = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_' || first == '$');
    let goes_on = text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_' || letter == '$');
    if begins && goes_on { Ok(text.to_owned()) } else { Err(format!("`{text}` is not a name")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_their_type() {
        for (text, bytes) in [
            ("u8:255", &[255][..]),
            ("s8:-128", &[128]),
            ("u16:0x1234", &[0x34, 0x12]),
            ("s16:-0x10", &[0xf0, 0xff]),
            ("u32:+7", &[7, 0, 0, 0]),
            ("s32:-1", &[255; 4]),
            ("u64:18446744073709551615", &[255; 8]),
            ("s64:-9223372036854775808", &[0, 0, 0, 0, 0, 0, 0, 128]),
            ("f16:1", &[0, 0x3c]),
            ("bf16:1", &[0x80, 0x3f]),
            ("f32:1", &[0, 0, 0x80, 0x3f]),
            ("f32:-1e-3", &(-1e-3f32).to_le_bytes()),
            ("f32:0f3F800000", &[0, 0, 0x80, 0x3f]),
            ("f32:0x3f800000", &[0, 0, 0x80, 0x3f]),
            ("f32:-inf", &f32::NEG_INFINITY.to_le_bytes()),
            ("f64:0d3FF0000000000000", &1f64.to_le_bytes()),
            ("b32:0x3f800000", &[0, 0, 0x80, 0x3f]),
            ("b8:9", &[9]),
            ("s16:1,-1", &[1, 0, 255, 255]),
        ] {
            let Ok(Argument::Value(Value::Numbers { bytes: read, .. })) = argument(text) else { panic!("{text}") };
            assert_eq!(read, bytes, "{text}");
        }
        let Ok(Argument::Value(Value::Numbers { bytes, .. })) = argument("f32:nan") else { panic!("nan is a float") };
        assert!(f32::from_le_bytes(bytes.try_into().unwrap()).is_nan());
    }

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        for (text, reason) in [
            ("", "an argument is"),
            ("5", "an argument is"),
            ("f33:1", "`f33` is not a type"),
            ("u8:256", "0 to 255"),
            ("u8:-1", "0 to 255"),
            ("s8:128", "-128 to 127"),
            ("s32:0xffffffff", "for bits write b32"),
            ("u64:18446744073709551616", "0 to 18446744073709551615"),
            ("u64:99999999999999999999999999999999999999999999", "0 to 18446744073709551615"),
            ("u32:", "not a whole number"),
            ("u32:1,", "not a whole number"),
            ("u32:--1", "not a whole number"),
            ("u32:0x-1", "not a whole number"),
            ("u32:1.5", "not a whole number"),
            ("f32:one", "not a number"),
            ("f32:1e50", "too large for f32"),
            ("f16:70000", "too large for f16"),
            ("f32:0x3f8000000", "not 32 bits"),
            ("f64:0f3F800000", "not a number"),
            ("in:f32", "an argument is"),
            ("in:f32:", "the list is empty"),
            ("in:f32:1,,2", "`` is not a number"),
            ("in:f32:1,2,", "`` is not a number"),
            ("out:f32:-1", "not a number of elements"),
            ("out:f64:18446744073709551615", "more than an address"),
            ("in:u8:@no/such/file", "cannot read `no/such/file`"),
        ] {
            let error = argument(text).expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn structs_and_addresses_are_read() {
        let value = |text| match argument(text) {
            Ok(Argument::Value(value)) => value,
            other => panic!("{text}: {other:?}"),
        };
        let address = |name: &str, offset| Value::Address(Address { name: Some(name.into()), offset });
        assert_eq!(value("ptr:x"), address("x", 0));
        assert_eq!(value("ptr:_x$1+16"), address("_x$1", 16));
        assert_eq!(value("ptr:null"), Value::Address(Address { name: None, offset: 0 }));
        let fields = vec![value("u8:1"), address("x", 4), value("f32:0.5,0.5")];
        assert_eq!(value("struct:u8:1/ptr:x+4/f32:0.5,0.5"), Value::Struct(fields));
        let buffer = |name: Option<&str>| Buffer {
            name: name.map(str::to_owned),
            element: Element::U8,
            contents: Contents::Bytes(vec![1, 2]),
            shown: true,
            object: None,
        };
        assert_eq!(argument("x=inout:u8:1,2"), Ok(Argument::Buffer(buffer(Some("x")))));
        assert_eq!(argument("inout:u8:1,2"), Ok(Argument::Buffer(buffer(None))));
        assert_eq!(named_buffer("x=inout:u8:1,2"), Ok(buffer(Some("x"))));
        assert_eq!(variable("t=u16:1,2"), Ok(("t".into(), Element::U16, vec![1, 0, 2, 0])));
        for (text, reason) in [
            ("ptr:", "`` is not a name"),
            ("ptr:1x", "`1x` is not a name"),
            ("ptr:x+y", "`y` is not a number of bytes"),
            ("struct:", "the field `` is not"),
            ("struct:u8:1/in:u8:1", "the field `in:u8:1` is not"),
            ("struct:u8:1/struct:u8:1", "the field `struct:u8:1` is not"),
            ("struct:u8:300", "0 to 255"),
            ("x y=in:u8:1", "`x y` is not a name"),
            ("x=u8:1", "an argument is"),
        ] {
            let error = argument(text).expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
        assert!(named_buffer("in:u8:1").is_err() && variable("u8:1").is_err() && variable("x=u8").is_err());
        assert!(output("x").is_err());
    }
}
