/** A new column, another name for one, or a value for all its empty cells. */
import { useState, type ReactNode } from 'react';
import { Button } from '@/components/button';
import { Dialog } from '@/components/dialog';
import { Select, TextArea, TextField, Labelled } from '@/components/form-fields';
import { focused } from '@/lib/dom';
import { exact } from '@/lib/safe-text';
import { type Column, type Edits, nameFault, renamed, withColumn, withFill } from './edits';
import { FaultsContext, useFaults } from './faults';
import { JsonInput } from './json-input';

export type Asking = { act: 'add' } | { act: 'rename' | 'fill'; column: string };

interface Props {
  asking: Asking;
  columns: readonly Column[];
  edits: Edits;
  onDone: (edits: Edits) => void;
  onClose: () => void;
}

const TITLES = { add: 'Add a column', rename: 'Rename the column', fill: 'Fill empty cells' };

export function ColumnDialog({ asking, columns, edits, onDone, onClose }: Props): ReactNode {
  const before = 'column' in asking ? asking.column : '';
  const [name, setName] = useState(before);
  const [how, setHow] = useState<'nothing' | 'text' | 'json'>(asking.act === 'fill' ? 'text' : 'nothing');
  const [text, setText] = useState('');
  const [value, setValue] = useState<unknown>(undefined);
  const [wrong, report] = useFaults();
  const fault = asking.act === 'fill' ? null : nameFault(name, columns, edits, asking.act === 'rename' ? before : undefined);
  const filling = how === 'text' ? text : how === 'json' ? value : undefined;
  const isReady = fault === null && wrong === 0 && (asking.act !== 'fill' || filling !== undefined);
  const done = (): void => {
    if (!isReady) return;
    const named = asking.act === 'rename' ? renamed(edits, before, name) : asking.act === 'add' ? withColumn(edits, name) : edits;
    onDone(filling === undefined ? named : withFill(named, name, filling));
    onClose();
  };
  return (
    <Dialog open onClose={onClose} title={TITLES[asking.act]} {...(asking.act === 'fill' ? { description: `Where ${exact(before).slice(0, 80)} has no value, it gets this one.` } : {})}>
      <FaultsContext value={report}>
        <form className="flex flex-col gap-3 pt-1" onSubmit={(event) => { event.preventDefault(); done(); }}>
          {asking.act !== 'fill' && (
            <Labelled label="Name">
              <TextField ref={focused} dir="auto" maxLength={1000} value={name} aria-invalid={name !== '' && fault !== null} onChange={(event) => setName(event.target.value)} />
            </Labelled>
          )}
          {name !== '' && fault && <p role="alert" className="text-xs text-bad">{fault}</p>}
          {asking.act !== 'rename' && (
            <Labelled label="Value of all rows">
              <Select value={how} onChange={(event) => setHow(event.target.value as typeof how)}>
                {asking.act === 'add' && <option value="nothing">None yet</option>}
                <option value="text">A text</option>
                <option value="json">JSON</option>
              </Select>
            </Labelled>
          )}
          {how === 'text' && <TextArea dir="auto" aria-label="Text" rows={2} value={text} onChange={(event) => setText(event.target.value)} />}
          {how === 'json' && <JsonInput label="JSON" value={value} onChange={setValue} placeholder="true" />}
          <div className="flex justify-end gap-2">
            <Button onClick={onClose}>Cancel</Button>
            <Button type="submit" look="main" disabled={!isReady}>{asking.act === 'rename' ? 'Rename' : asking.act === 'add' ? 'Add' : 'Fill'}</Button>
          </div>
        </form>
      </FaultsContext>
    </Dialog>
  );
}
