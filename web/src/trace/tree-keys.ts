/** What a key does in a tree: the usual ones of trees everywhere. */
import type { Row } from './forest';

export type Move = { to: string } | { open: string } | { close: string } | null;

/** `page`: how many rows one sees at once. */
export function moveBy(key: string, rows: readonly Row[], here: string | null, page: number): Move {
  const place = rows.findIndex(({ twig }) => twig.id === here);
  const row = rows[place];
  const at = (index: number): Move => to(rows[Math.min(Math.max(0, index), rows.length - 1)]);
  switch (key) {
    case 'ArrowDown':
      return at(place + 1);
    case 'ArrowUp':
      return at(place - 1);
    case 'PageDown':
      return at(place + page);
    case 'PageUp':
      return at(place - page);
    case 'Home':
      return at(0);
    case 'End':
      return at(rows.length - 1);
    case 'ArrowRight':
      if (row?.open === false) return { open: row.twig.id };
      return row?.open ? at(place + 1) : null;
    case 'ArrowLeft':
      if (row?.open) return { close: row.twig.id };
      return row?.twig.parent ? { to: row.twig.parent.id } : null;
    case 'Enter':
    case ' ':
      return row?.open === null || !row ? null : row.open ? { close: row.twig.id } : { open: row.twig.id };
    default:
      return null;
  }
}

const to = (row: Row | undefined): Move => (row ? { to: row.twig.id } : null);

/** The next row, after this one and round, whose name begins so: one finds by typing. */
export function typed(letters: string, rows: readonly Row[], here: string | null): string | null {
  const wanted = letters.toLowerCase();
  const place = rows.findIndex(({ twig }) => twig.id === here);
  const first = letters.length > 1 ? Math.max(0, place) : place + 1; // More letters may still fit where one is.
  for (let step = 0; step < rows.length; step++) {
    const row = rows[(first + step) % rows.length];
    if (row?.twig.name.toLowerCase().startsWith(wanted)) return row.twig.id;
  }
  return null;
}
