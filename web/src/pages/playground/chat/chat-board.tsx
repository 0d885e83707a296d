/** Chat mode: threads as rows, variants as columns, and the composer. */
import { useSyncExternalStore, useState, type ReactNode } from 'react';
import { useCommand } from '@/app/commands';
import { completeStep } from '@/app/tour/progress';
import type { ChatPart } from '@/components/messages/message';
import { showError } from '@/components/toast';
import { cn } from '@/lib/cn';
import { useBoard, useBoardStore } from '@/pages/playground/board-store';
import { AddColumn, ColumnHeader } from '@/pages/playground/column-header';
import { addRow, RowHeader, useHasInputs } from '@/pages/playground/row-inputs';
import type { CellChat, CellName, CellChats } from './cell-chat';
import { ChatCell } from './chat-cell';
import { Composer, targetCells, neighbourCell, type Role, type Target } from './composer';

interface Props {
  cells: CellChats;
  active: CellName;
  onActive: (cell: CellName) => void;
  /** Whether the thread is in no board; then nothing can be added. */
  isStandalone: boolean;
}

interface BoardCommandsOptions {
  cells: CellChats;
  active: CellName;
  single: boolean;
  stopAll: () => void;
  go: (step: 1 | -1) => void;
  onAddRow: (() => void) | null;
}

function useBoardCommands({ cells, active, single, stopAll, go, onAddRow }: BoardCommandsOptions): void {
  useCommand({
    id: 'stop',
    title: 'Stop this cell',
    group: 'Chat',
    keys: 'mod+.',
    run: () => void cells.get(active).stop().catch(showError),
  });
  useCommand(!single && { id: 'stop-all', title: 'Stop all cells', group: 'Chat', keys: 'mod+shift+.', run: stopAll });
  useCommand(
    !single && { id: 'next-cell', title: 'Next cell', group: 'Chat', keys: 'alt+ArrowRight', run: () => go(1) },
  );
  useCommand(
    !single && { id: 'previous-cell', title: 'Previous cell', group: 'Chat', keys: 'alt+ArrowLeft', run: () => go(-1) },
  );
  useCommand(
    onAddRow !== null && {
      id: 'add-thread',
      title: 'Add thread',
      group: 'Chat',
      keys: 'alt+t',
      run: onAddRow,
    },
  );
}

export function ChatBoard({ cells, active, onActive, isStandalone }: Props): ReactNode {
  const board = useBoard();
  const store = useBoardStore();
  const { rows, columns } = board;
  const target = (board.layout['composer'] as Target | undefined) ?? 'all';
  const single = rows.length * columns.length === 1;
  const hasInputs = useHasInputs(columns);
  const busy = useBusy(cells);

  const send = (parts: ChatPart[], role: Role) => {
    const sends = targetCells(board, single ? 'all' : target, active).map((name) => cells.get(name).send(parts, role));
    for (const pending of sends) pending.catch(showError);
    if (role === 'user')
      void Promise.allSettled(sends).then(() => completeTourSteps(cells.all(), rows.length, columns.length));
  };
  const stopAll = () => {
    for (const cell of cells.all()) if (cell.busy) void cell.stop().catch(showError);
  };
  const go = (step: 1 | -1) => {
    const next = neighbourCell(board, active, step);
    onActive(next);
    document
      .getElementById(`cell-${next.row}.${next.column}`)
      ?.scrollIntoView({ block: 'nearest', inline: 'nearest', behavior: 'smooth' });
  };
  useBoardCommands({ cells, active, single, stopAll, go, onAddRow: isStandalone ? null : () => addRow(store) });

  const hasSingleRow = rows.length === 1;
  const isTarget = (row: string, column: string): boolean =>
    !single && target !== 'all' && active.row === row && (target === 'row' || active.column === column);
  return (
    <div className="flex min-h-0 grow flex-col">
      <div className="min-h-0 grow snap-x snap-mandatory overflow-auto sm:snap-none">
        <div
          className={cn('grid min-h-full', hasSingleRow && 'h-full', single ? '' : 'gap-x-2 px-2')}
          style={{
            gridTemplateColumns: `repeat(${columns.length}, minmax(min(20rem, calc(100vw - 1rem)), 1fr))`,
            gridTemplateRows: hasSingleRow ? `auto ${hasInputs ? 'auto' : ''} minmax(0, 1fr)` : 'auto',
          }}
        >
          {columns.map((column, index) => (
            <div
              key={column.id}
              className={cn('sticky top-0 z-10 flex min-w-0 items-center bg-canvas', single && 'pr-2')}
            >
              <div className="min-w-0 grow">
                <ColumnHeader column={column} />
              </div>
              {!isStandalone && index === columns.length - 1 && columns.length < 8 && <AddColumn />}
            </div>
          ))}
          {rows.map((row, rowIndex) => (
            <RowCells key={row.id}>
              {(rows.length > 1 || hasInputs) && (
                <div className="sticky left-0 col-span-full min-w-0 max-w-[100vw]">
                  <RowHeader row={row} number={rowIndex + 1} />
                </div>
              )}
              {columns.map((column) => (
                <div
                  key={column.id}
                  id={`cell-${row.id}.${column.id}`}
                  className={cn('grid min-w-0 snap-center', hasSingleRow ? 'min-h-0' : 'mb-2 h-[min(32rem,70dvh)]')}
                >
                  <ChatCell
                    cell={cells.get({ row: row.id, column: column.id })}
                    row={row}
                    column={column}
                    number={rowIndex + 1}
                    isStandalone={single}
                    active={isTarget(row.id, column.id)}
                    onActive={() => onActive({ row: row.id, column: column.id })}
                  />
                </div>
              ))}
            </RowCells>
          ))}
        </div>
      </div>
      <div className="px-3 pt-2 pb-3">
        <Composer
          target={target}
          targets={composerTargets(rows.length, columns.length)}
          onTarget={(composer) => store.change((old) => ({ ...old, layout: { ...old.layout, composer } }))}
          onSend={send}
          onStop={stopAll}
          busy={busy && !single}
        />
      </div>
    </div>
  );
}

/** Tour: the user has chatted, and maybe compared. */
function completeTourSteps(cells: readonly CellChat[], rows: number, columns: number): void {
  const speakingCells = cells.filter(
    ({ chat }) => chat.status !== 'error' && chat.messages.some(({ role }) => role === 'assistant'),
  );
  if (speakingCells.length > 0) completeStep('talk');
  if (rows >= 3 && columns >= 2 && speakingCells.length === cells.length) completeStep('compare');
}

const RowCells = ({ children }: { children: ReactNode }): ReactNode => <div className="contents">{children}</div>;

function composerTargets(rows: number, columns: number): { value: Target; label: string }[] {
  return [
    { value: 'all', label: 'Send to all' },
    ...(rows > 1 && columns > 1 ? [{ value: 'row' as const, label: 'Send to this thread' }] : []),
    ...(rows * columns > 1 ? [{ value: 'cell' as const, label: 'Send to this cell' }] : []),
  ];
}

/** Whether any cell is answering; polled four times a second. */
function useBusy(cells: CellChats): boolean {
  const [subscribe] = useState(() => (listener: () => void) => {
    const timer = setInterval(listener, 250);
    return () => clearInterval(timer);
  });
  return useSyncExternalStore(subscribe, () => cells.all().some((cell) => cell.busy));
}
