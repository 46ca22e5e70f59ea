//! A device with named buffers and variables, for arguments.

use ptx_sim::{
    Arg, Device, DevicePtr, Fault, Kernel, LoadedModule, MemoryError, Module, ObjectError, ObjectHandle,
    SurfaceDescriptor, TensorMapError, TextureDescriptor, demangled,
};

use crate::cli::{Address, Argument, Buffer, Contents, Element, Map, Object, Value};

/// Reason why a session cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SetUp {
    #[error("{what}: {source}")]
    Memory { what: String, source: MemoryError },
    #[error(transparent)]
    Object(#[from] ObjectError),
    #[error(transparent)]
    Map(#[from] TensorMapError),
    #[error("there is no tensor map `{0}`")]
    UnknownMap(String),
    #[error("`{0}` is a texture or surface: nothing lies behind its handle")]
    InsideObject(String),
    #[error("there is no buffer or variable `{name}`; there are {known}")]
    UnknownName { name: String, known: String },
    #[error("there are two buffers `{0}`")]
    TwoOfOneName(String),
    #[error("`{name}` has {bytes} bytes, which {offset} + {length} exceeds")]
    Beyond { name: String, bytes: u64, offset: u64, length: u64 },
    #[error("{file} has {count} kernels; choose one with --kernel: {known}")]
    Choose { file: String, count: usize, known: String },
    #[error("{file} has no kernel")]
    NoKernel { file: String },
    #[error("`{wanted}` may be any of {known}; give its name as in the PTX")]
    Ambiguous { wanted: String, known: String },
}

impl SetUp {
    /// Whether the command was used wrongly.
    pub(crate) fn is_usage(&self) -> bool {
        !matches!(self, Self::Memory { .. } | Self::Object(ObjectError::Memory(_)))
    }
}

/// Device memory that a name or a number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub pointer: DevicePtr,
    pub bytes: u64,
    pub element: Element,
    /// Handle of a texture or a surface, equal to `pointer`.
    pub object: Option<ObjectHandle>,
}

pub(crate) struct Session {
    pub device: Device,
    module: Module,
    loaded: LoadedModule,
    buffers: Vec<(Option<String>, Place, bool)>,
    /// Variables whose type is known.
    variables: Vec<(String, Element)>,
    /// Tensor maps of a case.
    maps: Vec<(String, Map)>,
}

impl Session {
    pub(crate) fn new(device: Device, module: Module) -> Result<Self, ptx_sim::LoadError> {
        let loaded = device.load(&module)?;
        Ok(Self { device, module, loaded, buffers: Vec::new(), variables: Vec::new(), maps: Vec::new() })
    }

    /// The kernel of that name, in the PTX or in the source; the only one if no name is given.
    pub(crate) fn kernel(&self, wanted: Option<&str>) -> Result<Kernel, crate::Failure> {
        let names: Vec<&str> = self.module.kernels().map(|kernel| kernel.name.as_str()).collect();
        let file = || self.module.name().to_owned();
        let name = match (wanted, &*names) {
            (Some(wanted), names) => one_called(wanted, names)?.unwrap_or(wanted),
            (None, [only]) => only,
            (None, []) => return Err(SetUp::NoKernel { file: file() }.into()),
            (None, names) => {
                let known = names.iter().map(|name| demangled(name)).collect::<Vec<_>>().join(", ");
                return Err(SetUp::Choose { file: file(), count: names.len(), known }.into());
            }
        };
        Ok(self.loaded.kernel(name)?)
    }

    /// Allocates and fills a buffer.
    pub(crate) fn add(&mut self, buffer: &Buffer, label: &str) -> Result<DevicePtr, SetUp> {
        if let Some(name) = &buffer.name
            && self.buffers.iter().any(|(known, ..)| known.as_ref() == Some(name))
        {
            return Err(SetUp::TwoOfOneName(name.clone()));
        }
        if let (Some(object), Contents::Bytes(data)) = (&buffer.object, &buffer.contents) {
            let handle = self.create(object, buffer.name.as_deref().unwrap_or(label), data)?;
            let (pointer, bytes) = (DevicePtr(handle.0), data.len() as u64);
            let place = Place { pointer, bytes, element: buffer.element, object: Some(handle) };
            self.buffers.push((buffer.name.clone(), place, buffer.shown));
            return Ok(pointer);
        }
        let failed = |source| SetUp::Memory { what: label.to_owned(), source };
        let label = buffer.name.as_deref().unwrap_or(label);
        let bytes = buffer.contents.bytes();
        let pointer = self.device.alloc(bytes, label).map_err(failed)?;
        match &buffer.contents {
            Contents::Bytes(bytes) => self.device.write(pointer, bytes).map_err(failed)?,
            Contents::Zeros(bytes) => self.device.fill(pointer, 0, *bytes).map_err(failed)?,
            Contents::Unwritten(_) => {}
        }
        let place = Place { pointer, bytes, element: buffer.element, object: None };
        self.buffers.push((buffer.name.clone(), place, buffer.shown));
        Ok(pointer)
    }

    /// Registers a tensor map for use in arguments.
    pub(crate) fn add_map(&mut self, name: &str, map: Map) {
        self.maps.push((name.to_owned(), map));
    }

    fn map(&self, map: &Map) -> Result<(Vec<u8>, usize), SetUp> {
        let map = map.at(self.address(&map.of)?).encode()?;
        Ok((map.bytes().to_vec(), align_of_val(&map)))
    }

    /// Makes a texture or a surface.
    fn create(&self, object: &Object, label: &str, data: &[u8]) -> Result<ObjectHandle, ObjectError> {
        let (Object { extent, format, sampling }, label) = (*object, label.to_owned());
        match sampling {
            Some(sampling) => self.device.create_texture(&TextureDescriptor { extent, format, sampling, label }, data),
            None => self.device.create_surface(&SurfaceDescriptor { extent, format, label }, data),
        }
    }

    /// Has the first `length` bytes of a variable, whose elements have that type, written by `write`.
    pub(crate) fn set(
        &mut self,
        name: &str,
        element: Element,
        length: u64,
        write: impl FnOnce(&Device, DevicePtr) -> Result<(), MemoryError>,
    ) -> Result<(), SetUp> {
        self.variables.push((name.to_owned(), element));
        let place = self.named(name)?;
        if length > place.bytes {
            return Err(SetUp::Beyond { name: name.to_owned(), bytes: place.bytes, offset: 0, length });
        }
        write(&self.device, place.pointer).map_err(|source| SetUp::Memory { what: name.to_owned(), source })
    }

    /// The arguments of a launch. Buffers among them are allocated, in order; all their names are known to all of them.
    pub(crate) fn arguments(&mut self, arguments: &[Argument]) -> Result<Vec<Arg>, SetUp> {
        let mut addresses = Vec::new();
        for (number, argument) in (1..).zip(arguments) {
            if let Argument::Buffer(buffer) = argument {
                addresses.push(self.add(buffer, &format!("argument {number}"))?);
            }
        }
        let mut addresses = addresses.into_iter();
        let mut args = Vec::new();
        for argument in arguments {
            args.extend(match argument {
                Argument::Value(value) => Some(Arg::from_bytes(&self.laid_out(value)?.0)),
                Argument::Buffer(_) => addresses.next().map(Arg::from),
            });
        }
        Ok(args)
    }

    /// The bytes of a value, and their alignment.
    fn laid_out(&self, value: &Value) -> Result<(Vec<u8>, usize), SetUp> {
        Ok(match value {
            Value::Numbers { element, bytes } => (bytes.clone(), element.size()),
            Value::Address(address) => (self.address(address)?.to_le_bytes().to_vec(), size_of::<u64>()),
            Value::Map(map) => self.map(map)?,
            Value::NamedMap(name) => match self.maps.iter().find(|(known, _)| known == name) {
                Some((_, map)) => self.map(map)?,
                None => return Err(SetUp::UnknownMap(name.clone())),
            },
            Value::Struct(fields) => {
                let (mut bytes, mut largest) = (Vec::new(), 1);
                for field in fields {
                    let (field, align) = self.laid_out(field)?;
                    largest = largest.max(align);
                    bytes.resize(bytes.len().next_multiple_of(align), 0);
                    bytes.extend(field);
                }
                bytes.resize(bytes.len().next_multiple_of(largest), 0);
                (bytes, largest)
            }
        })
    }

    fn address(&self, Address { name, offset }: &Address) -> Result<u64, SetUp> {
        let Some(name) = name else { return Ok(0) };
        let place = self.named(name)?;
        if place.object.is_some() && *offset != 0 {
            return Err(SetUp::InsideObject(name.clone()));
        }
        // One past the end is an address, too.
        if *offset > place.bytes {
            let name = name.clone();
            return Err(SetUp::Beyond { name, bytes: place.bytes, offset: *offset, length: 0 });
        }
        Ok(place.pointer.0 + offset)
    }

    /// The buffer or variable of that name.
    pub(crate) fn named(&self, name: &str) -> Result<Place, SetUp> {
        let buffer = self.buffers.iter().find(|(known, ..)| known.as_deref() == Some(name));
        let variable = || {
            let (pointer, bytes) = self.loaded.global(name)?;
            let typed = self.variables.iter().find(|(known, _)| known == name);
            let element = typed.map_or(Element::B8, |(_, element)| *element);
            Some(Place { pointer, bytes, element, object: None })
        };
        buffer.map(|(_, place, _)| *place).or_else(variable).ok_or_else(|| {
            let buffers = self.buffers.iter().filter_map(|(name, ..)| name.as_deref());
            // What begins with a dollar is the compiler's own: texts of `printf`.
            let variables = self.loaded.globals().filter(|name| !name.starts_with('$'));
            let known: Vec<&str> = buffers.chain(variables).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            SetUp::UnknownName { name: name.to_owned(), known }
        })
    }

    /// The buffer that was allocated as number `at`, from 0 on.
    pub(crate) fn buffer(&self, at: usize) -> Place {
        self.buffers[at].1
    }

    /// The buffers to print, in order of their allocation.
    pub(crate) fn shown(&self) -> impl Iterator<Item = Place> {
        self.buffers.iter().filter(|(.., shown)| *shown).map(|(_, place, _)| *place)
    }

    /// Contents of memory at `place`.
    pub(crate) fn read(&self, place: Place) -> Vec<u8> {
        let mut bytes = vec![0; place.bytes as usize];
        if let Some(handle) = place.object {
            self.device
                .read_object(handle, &mut bytes)
                .expect("it was made with this size, and lives with the session");
            return bytes;
        }
        read(&self.device, place.pointer, &mut bytes);
        bytes
    }

    /// Adds findings for undefined values of memory that is printed, compared or saved.
    pub(crate) fn judge(&self, places: impl IntoIterator<Item = Place>, findings: &mut Vec<Fault>) {
        // Textures and surfaces hold none: a store to one uses its value.
        for place in places.into_iter().filter(|place| place.object.is_none()) {
            for finding in self.device.undefined(place.pointer, place.bytes).unwrap_or_default() {
                let same = |known: &&mut Fault| known.kind == finding.kind && known.place() == finding.place();
                match findings.iter_mut().find(same) {
                    Some(known) => known.count += finding.count,
                    None => findings.push(finding),
                }
            }
        }
    }
}

/// Reads memory of a session, undefined values too: [`Session::judge`] has them reported.
pub(crate) fn read(device: &Device, pointer: DevicePtr, bytes: &mut [u8]) {
    match device.read(pointer, bytes) {
        Ok(()) | Err(MemoryError::Undefined(_)) => {}
        Err(error) => panic!("it was allocated with this size, and is freed with the session: {error}"),
    }
}

/// The one of `names` that is `wanted`, either as in the PTX or as in the source, with or without its parameters and
/// namespaces; none if there is no such name.
fn one_called<'a>(wanted: &str, names: &[&'a str]) -> Result<Option<&'a str>, SetUp> {
    if let Some(exact) = names.iter().find(|name| **name == wanted) {
        return Ok(Some(exact));
    }
    let fits = |name: &&&str| {
        let whole = demangled(name).replace("(anonymous namespace)::", "");
        let head = whole.split('(').next().unwrap_or_default();
        let head = head.strip_prefix("void ").unwrap_or(head);
        let called = head.split('<').next().unwrap_or_default();
        let last = called.rsplit("::").next().unwrap_or_default();
        [whole.as_str(), head, called, last].contains(&wanted)
    };
    match &*names.iter().filter(fits).collect::<Vec<_>>() {
        [] => Ok(None),
        [only] => Ok(Some(only)),
        several => {
            let known =
                several.iter().map(|name| format!("{} ({name})", demangled(name))).collect::<Vec<_>>().join(", ");
            Err(SetUp::Ambiguous { wanted: wanted.to_owned(), known })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_found_by_its_name_in_the_source() {
        let names = ["_Z3addPKfS0_Pfi", "_Z5scaleIfEvPT_f", "_Z5scaleIdEvPT_f", "_ZN4math3mulEPf", "plain"];
        let found = |wanted| one_called(wanted, &names).map_err(|error| error.to_string());
        for (wanted, name) in [
            ("_Z3addPKfS0_Pfi", Some(names[0])),
            ("add", Some(names[0])),
            ("add(float const*, float const*, float*, int)", Some(names[0])),
            ("math::mul", Some(names[3])),
            ("mul", Some(names[3])),
            ("scale<double>", Some(names[2])),
            ("plain", Some("plain")),
            ("ad", None),
        ] {
            assert_eq!(found(wanted), Ok(name), "{wanted}");
        }
        let error = found("scale").unwrap_err();
        assert!(error.contains("scale<float>") && error.contains("_Z5scaleIdEvPT_f"), "{error}");
    }
}
