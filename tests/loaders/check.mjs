// check.mjs QUESTION CARD-OR-FILE…: asks DuckDB about a built data set.
//   types FILE…            the types that DuckDB infers from all rows of the files
//   features CARD CONFIG   the types that the card declares, in the same form
//   keys CARD CONFIG FILE… the inferred keys that the card does not declare
//   read CARD CONFIG FILE… rows read with the declared columns, and non-null leaves lost
// Types are printed one path a line, sorted, so that the order of fields is no matter.
import { DuckDBInstance } from '@duckdb/node-api';
import { readFileSync } from 'node:fs';

const db = await (await DuckDBInstance.create(':memory:', { threads: '2' })).connect();
const rows = async sql => (await db.runAndReadAll(sql)).getRowsJson();
const list = files => '[' + files.map(f => `'${f.replaceAll("'", "''")}'`).join(', ') + ']';
const source = (files, more) =>
  `read_json(${list(files)}, format = 'newline_delimited', maximum_object_size = 4000000${more})`;
// All rows, not a sample; an object is a struct, however its keys vary.
const INFER = ', sample_size = -1, union_by_name = true, map_inference_threshold = -1, field_appearance_threshold = 0';

// DuckDB's type text as {path: scalar}.
function paths(type, at, out) {
  let k = 0;
  const name = () => {
    if (type[k] === '"') {
      let s = '';
      for (k++; type[k] !== '"' || type[k + 1] === '"'; k++) {
        if (type[k] === '"') k++;
        s += type[k];
      }
      k++;
      return s;
    }
    const start = k;
    while (!/[\s,()[\]]/.test(type[k] ?? ' ')) k++;
    return type.slice(start, k);
  };
  const one = path => {
    const found = [];
    if (type.startsWith('STRUCT(', k)) {
      k += 7;
      do {
        while (type[k] === ' ' || type[k] === ',') k++;
        const key = name();
        k++;
        found.push(...one('.' + key));
      } while (type[k] === ',');
      k++;
    } else {
      found.push(['', name()]);
    }
    let suffix = '';
    while (type.startsWith('[]', k)) {
      suffix += '[]';
      k += 2;
    }
    return found.map(([p, t]) => [path + suffix + p, t]);
  };
  for (const [p, t] of one(at)) out[p] = t;
}

async function infer(files) {
  const out = {};
  for (const [column, type] of await rows(`DESCRIBE SELECT * FROM ${source(files, INFER)}`))
    paths(type, column, out);
  return out;
}

// The part of YAML that a card's features are written in.
function features(card, config) {
  const text = readFileSync(card, 'utf8').split('\n');
  let k = text.indexOf('dataset_info:');
  while (text[k] !== `- config_name: ${config}`) if (++k >= text.length) throw Error(`no config ${config}`);
  while (text[k] !== '  features:') k++;
  k++;
  const scalar = { string: 'VARCHAR', int64: 'BIGINT', float64: 'DOUBLE', bool: 'BOOLEAN' };
  const block = indent => {
    const fields = [];
    for (let m; (m = /^( *)- name: "?([^"]*)"?$/.exec(text[k])) && m[1].length === indent; ) {
      k++;
      const [, key, value] = /^ *(dtype|struct|list|sequence): ?(.*)$/.exec(text[k++]);
      let type;
      if (key === 'dtype') type = scalar[value];
      else if (key === 'sequence') type = scalar[value] + '[]';
      else {
        const inner = block(/^ */.exec(text[k])[0].length);
        type = `STRUCT(${inner.map(([n, t]) => `"${n}" ${t}`).join(', ')})` + (key === 'list' ? '[]' : '');
      }
      if (!type) throw Error(`${card}:${k}: type '${value}'`);
      fields.push([m[2], type]);
    }
    return fields;
  };
  return block(2);
}

function declared(card, config) {
  const out = {};
  for (const [name, type] of features(card, config)) paths(type, name, out);
  return out;
}

const print = types => Object.keys(types).sort().map(p => `${p} ${types[p]}`).join('\n');
const [question, ...args] = process.argv.slice(2);
switch (question) {
case 'types':
  console.log(print(await infer(args)));
  break;
case 'features':
  console.log(print(declared(args[0], args[1])));
  break;
case 'keys': {
  const card = declared(args[0], args[1]);
  const data = await infer(args.slice(2));
  // An integer reads as a float; what is null everywhere has no type of its own.
  for (const p of Object.keys(data).sort())
    if (!(card[p] === data[p] || (card[p] === 'DOUBLE' && data[p] === 'BIGINT') || (card[p] && data[p] === 'JSON')))
      console.log(`${p}: ${data[p]} in the data, ${card[p] ?? 'nothing'} in the card`);
  break;
}
case 'read': {
  const columns = features(args[0], args[1]).map(([n, t]) => `'${n}': '${t.replaceAll("'", "''")}'`).join(', ');
  const [[n]] = await rows(`SELECT count(COLUMNS(*)) FROM ${source(args.slice(2), `, columns = {${columns}}`)}`);
  console.log(n);
  break;
}
}
