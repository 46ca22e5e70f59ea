//! A model's tensors by name, as in a PyTorch state dict, for example from a `.safetensors` file.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use common::files;
use common::prelude::*;
use half::{bf16, f16};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

/// Counter that PyTorch keeps for training; unused here.
const COUNTER: &str = ".num_batches_tracked";
/// Bytes allowed for a file's contents besides its values: names and shapes, of which the format allows 100 MB.
const HEADER: u64 = 128 << 20;
/// Names that a message lists; the rest are counted.
const NAMED: usize = 5;

/// Tensors on the host, by name.
#[derive(Debug, Default)]
pub struct Parameters(BTreeMap<String, Arc<Tensor>>);

impl Parameters {
    /// Makes parameters from pairs of name and tensor.
    pub fn new(tensors: impl IntoIterator<Item = (String, Tensor)>) -> Parameters {
        Parameters(tensors.into_iter().map(|(name, tensor)| (name, Arc::new(tensor))).collect())
    }

    /// Untrained parameters for tensors of these names and shapes, determined by a seed: weights uniform in ±√(gain / inputs),
    /// and running statistics, scales and shifts that differ from channel to channel, so that a mix-up shows. `python/seeded.py`
    /// makes the same bits.
    pub fn seeded(shapes: Vec<(String, Vec<usize>)>, seed: u64, gain: f32) -> Parameters {
        Parameters::new(shapes.into_iter().zip(0u64..).map(|((name, shape), index)| {
            let random = Tensor::random(&shape, seed.wrapping_mul(1000).wrapping_add(index));
            let inputs: usize = shape.iter().skip(1).product();
            let (centre, spread) = match name.rsplit('.').next() {
                Some("running_var") => (1.0, 0.5),
                Some("weight") if shape.len() == 1 => (1.0, 0.25),
                Some("weight" | "basis") => (0.0, (gain / inputs as f32).sqrt()),
                _ => (0.0, 0.1),
            };
            let values = random.as_slice().unwrap_or_default().iter().map(|value| centre + spread * value).collect();
            (name, Tensor::from_vec(&shape, values).unwrap_or(random))
        }))
    }

    /// Reads a `.safetensors` file that has the tensors of `shapes` and no others; half-precision values are widened.
    ///
    /// # Errors
    /// [`Error::File`] with the file and what is wrong: it cannot be read, is truncated or of another format; tensors are
    /// missing, too many, of another shape or type; or one holds a value that is not finite.
    pub fn open(path: &Path, shapes: &[(String, Vec<usize>)]) -> Result<Parameters> {
        let name = path.display().to_string();
        // The widest type has eight bytes. It is refused, but with a better reason.
        let values: u64 = shapes.iter().map(|(_, shape)| shape.iter().map(|&side| side as u64).product::<u64>()).sum();
        let bytes = files::read(path, values.saturating_mul(8).saturating_add(HEADER))
            .map_err(|error| Error::File { name: name.clone(), reason: error.to_string() })?;
        Parameters::from_bytes(&name, &bytes, shapes)
    }

    /// Same as [`Parameters::open`], from a file that is already in memory; `name` stands in messages.
    ///
    /// # Errors
    /// Same as there.
    pub fn from_bytes(name: &str, bytes: &[u8], shapes: &[(String, Vec<usize>)]) -> Result<Parameters> {
        let wrong = |reason: String| Error::File { name: name.to_owned(), reason };
        let file = SafeTensors::deserialize(bytes)
            .map_err(|error| wrong(format!("it is truncated or no .safetensors file ({error})")))?;
        let missing = shapes.iter().filter(|(name, _)| file.tensor(name).is_err()).map(|(name, _)| name.as_str());
        let known = |name: &str| name.ends_with(COUNTER) || shapes.iter().any(|(other, _)| other == name);
        let extra = file.names().into_iter().filter(|name| !known(name));
        for (problem, names) in [("it lacks", list(missing)), ("the model does not have its", list(extra))] {
            if let Some(names) = names {
                return Err(wrong(format!("{problem} {names}")));
            }
        }
        let read = |(name, shape): &(String, Vec<usize>)| {
            let view = file.tensor(name).map_err(|error| wrong(error.to_string()))?;
            if view.shape() != shape {
                return Err(wrong(format!("`{name}` must have the shape {shape:?} and has {:?}", view.shape())));
            }
            let values = widened(&view)
                .ok_or_else(|| wrong(format!("`{name}` is of type {:?}; f32, f16 and bf16 are read", view.dtype())))?;
            if let Some(at) = values.iter().position(|value| !value.is_finite()) {
                return Err(wrong(format!("`{name}` holds {} at place {at}", values[at])));
            }
            Ok((name.clone(), Arc::new(Tensor::from_vec(shape, values)?)))
        };
        Ok(Parameters(shapes.iter().map(read).collect::<Result<_>>()?))
    }

    /// The tensor of this name.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is none, [`Error::Shape`] if it has another shape.
    pub fn get(&self, name: &str, shape: &[usize]) -> Result<&Arc<Tensor>> {
        let tensor = self.0.get(name).ok_or_else(|| Error::Invalid(format!("the parameters have no `{name}`")))?;
        tensor.expect_shape(name, shape)?;
        Ok(tensor)
    }

    /// Names and tensors, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.0.iter().map(|(name, tensor)| (name.as_str(), &**tensor))
    }
}

/// The first of the names, and the number of further ones; `None` if there is none.
fn list<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    let shown: Vec<String> = names.iter().take(NAMED).map(|name| format!("`{name}`")).collect();
    match names.len() {
        0 => None,
        count if count > NAMED => Some(format!("{} and {} more", shown.join(", "), count - NAMED)),
        _ => Some(shown.join(", ")),
    }
}

/// The values as f32; `None` for a type that is not read. The format is little-endian.
fn widened(view: &TensorView<'_>) -> Option<Vec<f32>> {
    let pairs = || view.data().as_chunks::<2>().0.iter();
    match view.dtype() {
        Dtype::F32 => Some(view.data().as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()),
        Dtype::F16 => Some(pairs().map(|&bytes| f16::from_le_bytes(bytes).to_f32()).collect()),
        Dtype::BF16 => Some(pairs().map(|&bytes| bf16::from_le_bytes(bytes).to_f32()).collect()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes() -> Vec<(String, Vec<usize>)> {
        vec![("a.weight".to_owned(), vec![2, 2]), ("b.bias".to_owned(), vec![3])]
    }

    /// Reads a file with these tensors.
    fn read(tensors: &[(&str, Dtype, &[usize], Vec<u8>)], cut: usize) -> Result<Parameters> {
        let views = tensors
            .iter()
            .map(|(name, dtype, shape, data)| (*name, TensorView::new(*dtype, shape.to_vec(), data).unwrap()));
        let bytes = safetensors::serialize(views, None).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("weights.safetensors");
        std::fs::write(&path, &bytes[..bytes.len() - cut]).unwrap();
        Parameters::open(&path, &shapes())
    }

    fn f32s(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn each_type_is_widened() {
        let halves: Vec<u8> = [0.5, -2.0, 65504.0, 6e-8].iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect();
        let brains: Vec<u8> = [1.5, -3e38, 1e-30].iter().flat_map(|&x| bf16::from_f32(x).to_le_bytes()).collect();
        let counter = (7i64).to_le_bytes().to_vec();
        let tensors = [
            ("a.weight", Dtype::F16, [2, 2].as_slice(), halves),
            ("b.bias", Dtype::BF16, [3].as_slice(), brains),
            ("a.num_batches_tracked", Dtype::I64, [].as_slice(), counter),
        ];
        let parameters = read(&tensors, 0).unwrap();
        let values = parameters.get("a.weight", &[2, 2]).unwrap().as_slice().unwrap();
        assert_eq!(values[..3], [0.5, -2.0, 65504.0]);
        assert!(values[3] > 0.0 && values[3] < 1e-7);
        let values = parameters.get("b.bias", &[3]).unwrap().as_slice().unwrap();
        assert_eq!(values, [1.5, bf16::from_f32(-3e38).to_f32(), bf16::from_f32(1e-30).to_f32()]);
        assert_eq!(parameters.iter().count(), 2);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_named() {
        let weight = || ("a.weight", Dtype::F32, [2, 2].as_slice(), f32s(&[1.0, 2.0, 3.0, 4.0]));
        let bias = |values: &[f32]| ("b.bias", Dtype::F32, [3].as_slice(), f32s(values));
        let good = || bias(&[1.0, 2.0, 3.0]);
        assert!(read(&[weight(), good()], 0).is_ok());
        let says = |tensors: &[(&str, Dtype, &[usize], Vec<u8>)], cut, what: &str| {
            let error = read(tensors, cut).unwrap_err().to_string();
            assert!(error.contains("weights.safetensors: ") && error.contains(what), "{error}");
        };
        says(&[weight()], 0, "it lacks `b.bias`");
        says(&[weight(), good(), ("c", Dtype::F32, &[1], f32s(&[0.0]))], 0, "the model does not have its `c`");
        says(
            &[weight(), ("b.bias", Dtype::F32, &[2], f32s(&[1.0, 2.0]))],
            0,
            "`b.bias` must have the shape [3] and has [2]",
        );
        says(&[weight(), ("b.bias", Dtype::I32, &[3], vec![0; 12])], 0, "`b.bias` is of type I32");
        says(&[weight(), bias(&[1.0, f32::NAN, 3.0])], 0, "`b.bias` holds NaN at place 1");
        says(&[weight(), good()], 1, "truncated");
        assert!(
            Parameters::open(Path::new("no/such/file"), &shapes()).unwrap_err().to_string().contains("no/such/file")
        );
    }

    #[test]
    fn many_names_are_counted() {
        let names = ["c", "b", "a", "f", "e", "d", "g"];
        assert_eq!(list(names.into_iter()).unwrap(), "`a`, `b`, `c`, `d`, `e` and 2 more");
        assert_eq!(list([].into_iter()), None);
    }
}
