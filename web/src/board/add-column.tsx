/** Another column: the same workflow to compare with itself, or another one. */
import { useQuery } from '@tanstack/react-query';
import { Plus } from 'lucide-react';
import type { ReactNode } from 'react';
import { workflows } from '@/api/queries';
import { useCommand } from '@/app/commands';
import { IconButton } from '@/components/button';
import { Menu, MenuItem, MenuLine, MenuTitle } from '@/components/menu';
import { useBoard, useBoardStore } from './board-state';
import { free } from './board-store';

export function AddColumn(): ReactNode {
  const store = useBoardStore();
  const board = useBoard();
  const known = useQuery(workflows()).data?.data ?? [];
  const last = board.columns.at(-1);
  const add = (workflow: string, variant = 'default', parameters = {}) =>
    store.change((now) => ({ ...now, columns: [...now.columns, { id: free('c', now.columns), workflow, variant, parameters }] }));
  useCommand(last && { id: 'add-variant', title: 'Add a variant', group: 'Chat', keys: 'alt+v', run: () => add(last.workflow, last.variant, last.parameters) });
  return (
    <Menu trigger={<IconButton label="Add variant" size="small"><Plus /></IconButton>}>
      {last && (
        <>
          <MenuItem onSelect={() => add(last.workflow, last.variant, last.parameters)}>{last.workflow} once more</MenuItem>
          <MenuLine />
        </>
      )}
      <MenuTitle>Another workflow</MenuTitle>
      {known
        .filter((one) => board.mode === 'single' || one.is_chat)
        .map((one) => (
          <MenuItem key={one.name} onSelect={() => add(one.name)}>
            {one.name}
          </MenuItem>
        ))}
    </Menu>
  );
}
