/** Which cell the server means when it refuses a delta: its error has a JSON pointer into what was sent. Pure. */
import type { Edits } from './edits';
import type { Place } from './grid-shape';

export interface Refused {
  column: string;
  /** What is meant inside of the cell, as a path. */
  inside: string;
  /** The cell, where it can be told. */
  place: Place | null;
}

export function refusedCell(path: string | undefined, { patches, added }: Edits): Refused | null {
  const [root, list, ...steps] = (path ?? '').split('/').slice(1).map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
  if (root !== 'delta') return null;
  if (list === 'add') {
    const [index = '', , column, ...inside] = steps;
    const key = added[Number(index)]?.key;
    return column === undefined ? null : { column, inside: inside.join('/'), place: key === undefined ? null : { key, column } };
  }
  if (list !== 'patch' && list !== 'columns') return null;
  const [column, ...inside] = steps;
  if (column === undefined) return null;
  // Of a patch only the column is told: where one row changes it, that is the one.
  const [only, ...others] = list === 'patch' ? [...patches].filter(([, { set }]) => Object.hasOwn(set, column)) : [];
  return { column, inside: inside.join('/'), place: only && others.length === 0 ? { key: only[0], column } : null };
}
