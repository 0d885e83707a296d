/** Many rows at once: JSON lines, CSV or cells of a spreadsheet, pasted or from a file. */
import { FileUp } from 'lucide-react';
import { useRef, useState, type ReactNode } from 'react';
import type { JsonSchema } from '@/components/forms/json-schema';
import { Button } from '@/components/button';
import { Dialog } from '@/components/dialog';
import { TextArea } from '@/components/form-fields';
import { tellError } from '@/components/toast';
import { pasted } from './paste';
import type { Inputs } from './rows';

interface Props {
  schema: JsonSchema;
  isChat: boolean;
  /** How many more the board takes. */
  room: number;
  onClose: () => void;
  onAdd: (inputs: readonly Inputs[]) => void;
}

const LARGEST = 8 * 1024 * 1024;

export function PasteDialog({ schema, isChat, room, onClose, onAdd }: Props): ReactNode {
  const [text, setText] = useState('');
  const file = useRef<HTMLInputElement>(null);
  const read = pasted(text, schema, isChat);
  const inputs = 'inputs' in read ? read.inputs : [];
  const many = inputs.length > room;
  const add = (): void => {
    onAdd(inputs);
    onClose();
  };
  return (
    <Dialog open wide onClose={onClose} title="Add many rows" description="One row per line: JSON objects, or a table whose first line names the inputs.">
      <TextArea
        aria-label="Rows"
        dir="auto"
        placeholder={isChat ? 'What is the capital of Norway?\nAnd of Sweden?' : '{"text": "…"}\n{"text": "…"}'}
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && inputs.length && !many) add();
        }}
        className="mt-2 block !min-h-48 font-mono text-[13px]"
      />
      <div className="mt-3 flex flex-wrap items-center gap-2">
        <input
          ref={file}
          type="file"
          hidden
          accept=".csv,.tsv,.json,.jsonl,.ndjson,.txt"
          onChange={(event) => {
            const chosen = event.target.files?.[0];
            if (!chosen) return;
            if (chosen.size > LARGEST) tellError(new Error('The file is larger than 8 MB.'));
            else chosen.text().then(setText, tellError);
          }}
        />
        <Button onClick={() => file.current?.click()}>
          <FileUp className="size-4" /> From a file
        </Button>
        <p role="status" className="min-w-0 grow text-muted wrap-anywhere">
          {'wrong' in read ? <span className="text-bad">{read.wrong}</span> : inputs.length > 0 && found(inputs.length, read.names)}
          {many && <span className="text-bad"> Only {room} more fit: a board has at most 1,000 rows.</span>}
        </p>
        <Button look="main" disabled={!inputs.length || many} onClick={add}>
          {inputs.length ? `Add ${inputs.length} row${inputs.length === 1 ? '' : 's'}` : 'Add rows'}
        </Button>
      </div>
    </Dialog>
  );
}

const found = (rows: number, names: readonly string[]): string =>
  `${rows.toLocaleString('en')} row${rows === 1 ? '' : 's'}: ${names.slice(0, 6).join(', ')}${names.length > 6 ? ', …' : ''}`;
