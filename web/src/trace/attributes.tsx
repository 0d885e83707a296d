/** A flat map of strangers' names and values, as a table. Names are text: no dot in them means anything here. */
import { Fragment, useState, type ReactNode } from 'react';
import { Button, CopyButton } from '@/components/button';
import { TextField } from '@/components/form-fields';
import { JsonView } from '@/components/json-view';
import { LongText } from '@/components/text';
import { exact } from '@/lib/safe-text';
import { listed, shortly } from './facts';

const STEP = 100;
const MANY = 12;
const LONG = 300;

export function Attributes({ map, label }: { map: object; label: string }): ReactNode {
  const [words, setWords] = useState('');
  const [shown, setShown] = useState(STEP);
  const all = listed(map);
  const wanted = words.trim().toLowerCase();
  const found = wanted ? all.filter(([name, value]) => name.toLowerCase().includes(wanted) || shortly(value).toLowerCase().includes(wanted)) : all;
  return (
    <div className="min-w-0">
      {all.length > MANY && (
        <TextField type="search" aria-label={`Find in ${label.toLowerCase()}`} placeholder="Find" dir="auto" value={words} onChange={(event) => setWords(event.target.value)} className="mb-1.5 !h-7 text-[13px]" />
      )}
      <table aria-label={label} className="w-full table-fixed border-collapse text-[13px]">
        <tbody>
          {found.slice(0, shown).map(([name, value]) => (
            <tr key={name} className="group/attribute border-b border-line/60 align-top last:border-0">
              <th scope="row" dir="ltr" className="w-2/5 py-1 pr-3 text-left font-mono text-xs/5 font-normal wrap-anywhere text-muted"><Name name={exact(name).slice(0, 600)} /></th>
              <td className="relative min-w-0 py-1 pr-7 font-mono text-xs/5 wrap-anywhere">
                <Value value={value} />
                <CopyButton className="!absolute top-0 right-0 opacity-0 group-hover/attribute:opacity-100 focus-visible:opacity-100" label="Copy value" text={() => (typeof value === 'string' ? value : JSON.stringify(value))} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {found.length === 0 && <p className="text-faint">None</p>}
      {found.length > shown && <Button size="small" look="quiet" onClick={() => setShown(shown + STEP)}>Show {Math.min(STEP, found.length - shown)} more of {found.length - shown}</Button>}
    </div>
  );
}

/** A long name goes on in the next line after a dot, if it can. */
const Name = ({ name }: { name: string }): ReactNode =>
  // oxlint-disable-next-line react/no-array-index-key -- pieces of one text
  name.split(/(?<=[._])/).map((piece, place) => <Fragment key={place}>{piece}<wbr /></Fragment>);

function Value({ value }: { value: unknown }): ReactNode {
  const [all, setAll] = useState(false);
  if (typeof value === 'object' && value !== null) return <JsonView value={value} open={0} copy={false} />;
  const text = typeof value === 'string' ? value : String(value);
  if (text.length <= LONG || all) return <span dir="auto" className="whitespace-pre-wrap"><LongText text={text} tidy={exact} /></span>;
  return (
    <>
      <span dir="auto" className="whitespace-pre-wrap">{exact(text.slice(0, LONG))}…</span>{' '}
      <Button size="small" look="quiet" onClick={() => setAll(true)}>Show more</Button>
    </>
  );
}
