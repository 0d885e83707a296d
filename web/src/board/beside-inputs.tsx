/** Around what a cell shows: lets it change the inputs of its row. */
import { useMemo, type ReactNode } from 'react';
import { InputsContext } from '@/components/messages/code-edit';
import { useBoardStore } from './board-state';
import { rowInputs } from './row-inputs';

export function BesideInputs({ row, workflow, children }: { row: string; workflow: string; children: ReactNode }): ReactNode {
  const store = useBoardStore();
  const inputs = useMemo(() => rowInputs(store, row, workflow), [store, row, workflow]);
  return <InputsContext value={inputs}>{children}</InputsContext>;
}
