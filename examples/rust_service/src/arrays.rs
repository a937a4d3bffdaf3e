//! Arrays of an .npz from somebody who is not trusted, and the .npz of the answer.

use std::collections::HashMap;
use std::io::{Cursor, Read, Write};

use npyz::{AutoSerialize, Deserialize, NpyFile, Order, TypeChar, WriterBuilder};
use zip::write::FileOptions;

use crate::refusal::Refusal;

/// numpy writes less than 200 bytes; a longer header could nest deeper than its reader has stack.
const LARGEST_HEADER: usize = 1024;

/// The files of an .npz that the service reads, as bytes, by the names of their arrays.
pub struct Arrays(HashMap<String, Vec<u8>>);

impl Arrays {
    /// Unpacks those of `names` that are there, `limit` bytes of them at most.
    pub fn unpack(npz: &[u8], names: &[&str], limit: usize) -> Result<Self, Refusal> {
        let damaged = |error| Refusal::bad(format!("the body is not an .npz: {error}"));
        let mut archive = zip::ZipArchive::new(Cursor::new(npz)).map_err(damaged)?;
        let (mut arrays, mut left) = (HashMap::new(), limit);
        for index in 0..archive.len() {
            let entry = archive.by_index(index).map_err(damaged)?;
            let Some(name) = entry.name().strip_suffix(".npy").filter(|name| names.contains(name))
            else {
                continue;
            };
            let (name, mut bytes) = (name.to_string(), Vec::new());
            entry
                .take(left as u64 + 1)
                .read_to_end(&mut bytes)
                .map_err(|error| Refusal::bad(format!("{name} is damaged: {error}")))?;
            left = left.checked_sub(bytes.len()).ok_or_else(|| {
                Refusal::too_large(format!("the .npz unpacks to more than {limit} bytes"))
            })?;
            arrays.insert(name, bytes);
        }
        Ok(Arrays(arrays))
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// An array of numbers that `T` is read from, and its shape.
    pub fn get<T: Deserialize>(&self, name: &str) -> Result<(Vec<T>, Vec<usize>), Refusal> {
        let file = self.open(name)?;
        let type_text = file.dtype().descr();
        let shape = file.shape().iter().map(|&n| n as usize).collect();
        let numbers = file.into_vec().map_err(|_| {
            Refusal::bad(format!("{name} is of type {type_text}: must be as GET / says"))
        })?;
        Ok((numbers, shape))
    }

    /// "f4", "i8" and the like.
    pub fn type_of(&self, name: &str) -> Result<String, Refusal> {
        match self.open(name)?.dtype() {
            npyz::DType::Plain(plain) => {
                let letter = match plain.type_char() {
                    TypeChar::Float => 'f',
                    TypeChar::Int => 'i',
                    other => {
                        return Err(Refusal::bad(format!(
                            "{name} is of type {other:?}: must be as GET / says"
                        )))
                    }
                };
                Ok(format!("{letter}{}", plain.size_field()))
            }
            _ => Err(Refusal::bad(format!("{name} has records: must have numbers"))),
        }
    }

    /// The array's header, held against the bytes that follow it before anything is allocated for them.
    fn open(&self, name: &str) -> Result<NpyFile<&[u8]>, Refusal> {
        let damaged = |why: String| Refusal::bad(format!("{name} is no .npy array: {why}"));
        let bytes = self.0.get(name).ok_or_else(|| Refusal::bad(format!("{name} is missing")))?;
        let header_bytes = match bytes.get(..12) {
            Some([.., 1, _, low, high, _, _]) => usize::from(u16::from_le_bytes([*low, *high])),
            Some([.., a, b, c, d]) => u32::from_le_bytes([*a, *b, *c, *d]) as usize,
            _ => return Err(damaged(format!("it has {} bytes", bytes.len()))),
        };
        if header_bytes > LARGEST_HEADER {
            let why = format!("its header has {header_bytes} bytes, more than {LARGEST_HEADER}");
            return Err(damaged(why));
        }
        let mut data = &bytes[..];
        let header = npyz::NpyHeader::from_reader(&mut data)
            .map_err(|_| damaged("its header is not one of numpy's".into()))?;
        let dtype = header.dtype();
        let item = dtype.num_bytes().ok_or_else(|| damaged("its type has no size".into()))? as u64;
        // The product of a damaged shape may not fit its type.
        let size = header.shape().iter().try_fold(item, |size, &n| size.checked_mul(n));
        if size != Some(data.len() as u64) {
            let why = format!(
                "shape {:?} of {} does not fit its {} bytes",
                header.shape(),
                dtype.descr(),
                data.len()
            );
            return Err(damaged(why));
        }
        if header.order() != Order::C && header.shape().len() > 1 {
            return Err(Refusal::bad(format!("{name} is in Fortran order: must be in C order")));
        }
        Ok(NpyFile::with_header(header, data))
    }
}

/// An .npz under construction, not compressed.
pub struct Answer(zip::ZipWriter<Cursor<Vec<u8>>>);

impl Answer {
    pub fn new() -> Self {
        Answer(zip::ZipWriter::new(Cursor::new(Vec::new())))
    }

    pub fn add<T: AutoSerialize>(
        &mut self,
        name: &str,
        shape: &[usize],
        numbers: Vec<T>,
    ) -> std::io::Result<()> {
        let options = FileOptions::default().compression_method(zip::CompressionMethod::Stored);
        self.0.start_file(format!("{name}.npy"), options)?;
        let shape: Vec<u64> = shape.iter().map(|&n| n as u64).collect();
        let mut bytes = Vec::new();
        let mut writer = npyz::WriteOptions::new()
            .default_dtype()
            .shape(&shape)
            .writer(&mut bytes)
            .begin_nd()?;
        writer.extend(numbers)?;
        writer.finish()?;
        self.0.write_all(&bytes)
    }

    pub fn finish(mut self) -> std::io::Result<Vec<u8>> {
        Ok(self.0.finish()?.into_inner())
    }
}
