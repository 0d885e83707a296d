/** Markdown, also while it is being written: blocks that are done stay as they are, only the last ones are read again. */
import { memo, useMemo, useState, type ReactNode } from 'react';
import { LongText } from '../long-text';
import { BlocksView } from './block-view';
import { reader } from './blocks';
import { usePaced } from './paced';
import { held } from './tail';

/** Past this it is shown as plain text. */
const MAX_MARKDOWN = 200_000;

export const Markdown = memo(function Markdown({ text, streaming = false }: { text: string; streaming?: boolean }): ReactNode {
  const paced = usePaced(text, streaming);
  if (paced.length > MAX_MARKDOWN) {
    return <div dir="auto" className="wrap-anywhere whitespace-pre-wrap"><LongText text={paced} /></div>;
  }
  return <Read text={streaming ? held(paced) : paced} open={streaming} />;
});

const Read = memo(function Read({ text, open }: { text: string; open: boolean }): ReactNode {
  const [read] = useState(reader);
  const { blocks, links } = useMemo(() => read(text, open), [read, text, open]);
  return <div className="space-y-3"><BlocksView blocks={blocks} links={links} open={open} /></div>;
});
