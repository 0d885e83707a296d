/** One row: its inputs at the left, then what each column answered. On a phone a card, one below the other. */
import { Copy, MoreHorizontal, Play, Trash2 } from 'lucide-react';
import { memo, type ReactNode } from 'react';
import type { Column, Row, Run } from '@/api/types';
import { BesideInputs } from '@/board/beside-inputs';
import type { JsonSchema } from '@/components/forms/json-schema';
import { SchemaForm } from '@/components/forms/schema-form';
import { put } from '@/components/forms/values';
import { classes } from '@/lib/class-names';
import { Badge } from '@/components/status';
import { Button, IconButton } from '@/components/button';
import { Menu, MenuItem, MenuLine } from '@/components/menu';
import type { Acts } from './acts';
import { MessagesEditor } from './messages-editor';
import { OutputCell } from './output-cell';

/** What a row's inputs are entered with. */
export interface Taking {
  schema: JsonSchema;
  /** Some column is a chat: it is asked with a conversation. */
  isChat: boolean;
  /** There is something else to enter than that conversation. */
  hasFields: boolean;
}

interface Props {
  row: Row;
  number: number;
  columns: readonly Column[];
  taking: Taking;
  /** Undefined: not heard of yet; null: never run. */
  runOf: (row: string, column: string) => Run | null | undefined;
  base: string | null;
  acts: Acts;
}

export const CELL = 'min-w-0 p-2 sm:border-l';

export function RowView({ row, number, columns, taking, runOf, base, acts }: Props): ReactNode {
  return (
    <div
      role="row"
      tabIndex={-1}
      className="grid grid-cols-1 sm:grid-cols-(--columns)"
      onKeyDown={(event) => {
        if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey) || event.nativeEvent.isComposing) return;
        event.preventDefault();
        acts.runRow(row.id);
      }}
    >
      <div role="rowheader" className="min-w-0 bg-canvas p-2 pt-1 sm:sticky sm:left-0 sm:z-10">
        <RowInputs row={row} number={number} taking={taking} acts={acts} />
      </div>
      {columns.map((column, place) => {
        const comparing = base !== null && base !== column.id;
        return (
          <div role="cell" key={column.id} className={classes(CELL, 'bg-surface max-sm:border-t')}>
            <p className="mb-1 flex items-center gap-1.5 text-xs font-medium text-muted sm:hidden">
              {column.workflow} {column.variant !== 'default' && column.variant}
              {base === column.id && <Badge>Base</Badge>}
            </p>
            <BesideInputs row={row.id} workflow={column.workflow}>
              <OutputCell
                run={runOf(row.id, column.id)}
                base={comparing ? runOf(row.id, base) : undefined}
                label={`row ${number}, column ${place + 1}`}
                onRun={() => acts.run([[row.id, column.id]])}
                onStop={acts.stop}
              />
            </BesideInputs>
          </div>
        );
      })}
    </div>
  );
}

type InputsProps = Pick<Props, 'row' | 'number' | 'taking' | 'acts'>;

const RowInputs = memo(function RowInputs({ row, number, taking, acts }: InputsProps): ReactNode {
  const inputs = row.inputs ?? {};
  return (
    <>
      <div className="flex h-8 items-center gap-1">
        <span className="text-xs font-medium text-faint tabular-nums">{row.name || number}</span>
        <span className="grow" />
        <Button size="small" look="quiet" aria-label={`Run row ${number}`} title="Run this row (Ctrl+Enter)" onClick={() => acts.runRow(row.id)}>
          <Play className="size-3.5" /> Run
        </Button>
        <Menu
          trigger={
            <IconButton size="small" label={`More for row ${number}`}>
              <MoreHorizontal />
            </IconButton>
          }
        >
          <MenuItem icon={<Copy />} onSelect={() => acts.duplicate(row.id)}>
            Duplicate row
          </MenuItem>
          <MenuLine />
          <MenuItem icon={<Trash2 />} danger onSelect={() => acts.remove(row.id)}>
            Delete row
          </MenuItem>
        </Menu>
      </div>
      <div className="flex flex-col gap-2">
        {taking.isChat && <MessagesEditor value={inputs.messages} onChange={(messages) => acts.change(row.id, put(inputs, 'messages', messages))} />}
        {taking.hasFields && (
          <SchemaForm compact schema={taking.schema} value={inputs} without={taking.isChat ? ['messages'] : []} onChange={(next) => acts.change(row.id, next)} />
        )}
      </div>
    </>
  );
});
